// The file lets fork.go declare functions that are the runtime's.
