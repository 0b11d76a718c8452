// Package examples holds configurations with their data, and tests that they learn what they say.
package examples

import "embed"

// Configs has the configurations, whose paths begin at the repository's root, and what was measured.
//
//go:embed */*.yaml cluster/*/run.yaml */results.json
var Configs embed.FS
