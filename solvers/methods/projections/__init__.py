"""The linear SVM on a line, and searches over directions: `svm1d`, `project` and `local`."""
