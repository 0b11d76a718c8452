package config

import "github.com/trinity-go/trinity"

// Names is one name or a list of names: `a` and `[a]` are the same.
type Names = trinity.Names
