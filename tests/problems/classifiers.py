"""Classifiers of every kind, and features for them."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

CLASSIFIERS = [
    LogisticRegression(),
    LinearSVC(random_state=0),
    GaussianNB(),
    DecisionTreeClassifier(random_state=0),
    MultinomialNB(),
    RandomForestClassifier(5, random_state=0),
    KNeighborsClassifier(3),
    HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    SVC(kernel="linear"),
    Pipeline([("scale", MaxAbsScaler()), ("svm", LinearSVC(random_state=0))]),
]
NAMES = [type(classifier).__name__ for classifier in CLASSIFIERS]


def features_of(sentence):
    """Features of a sentence's rows, one of them a number."""
    return [{"word": word, "tag": tag, "length": len(word) / 10} for word, tag in sentence]


class Forgetful(ClassifierMixin, BaseEstimator):
    """Leaves out a class; with ``broken`` its probabilities are NaN."""

    def __init__(self, forget="O", broken=False):
        self.forget, self.broken = forget, broken

    def fit(self, X, y):
        kept = np.flatnonzero(y != self.forget)
        self.inner_ = MultinomialNB().fit(X[kept], y[kept])
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X) * (np.nan if self.broken else 1.0)
