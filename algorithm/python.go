package algorithm

import "github.com/trinity-go/trinity/registry"

// Algorithm types of users are classes in Python, of which a check makes a [trinity.Algorithm].
func init() { registry.Algorithms.Elsewhere("python", "class") }
