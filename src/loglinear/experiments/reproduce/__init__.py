"""The papers' comparisons run again, in their settings, with the published figures beside ours."""
