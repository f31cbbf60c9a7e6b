package prompt

// RefusedPush tells the model why its push was refused and how to fix it.
func RefusedPush(base, why string) string {
	return "Your branch was not pushed: " + why + "\nRemove the value from every commit since " + base +
		", not only from the current files: for example `git reset --soft " + base +
		"`, then remove it from the files, unstage what should not be there, and commit again. " +
		"If it is needed at run time, read it from the environment. Do not encode or split it. The push is retried when you finish."
}
