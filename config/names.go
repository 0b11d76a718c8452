package config

// Names is one name or a list of names: `a` and `[a]` are the same.
type Names []string
