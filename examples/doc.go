// Package examples holds configurations with their data, and tests that they learn what they say.
package examples

import "embed"

// Configs has the configurations. Their paths begin at the repository's root.
//
//go:embed */*.yaml cluster/*/run.yaml
var Configs embed.FS
