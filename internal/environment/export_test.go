package environment

// Keys are the keys of the format, in the order of the guide.
func Keys() []Key { return keys }
