"""Room 8, what users hold: estimators with scikit-learn conventions."""
