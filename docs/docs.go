// Package docs holds the pages that trinity help prints.
package docs

import "embed"

// Pages has the list of all pages, README.md, and the pages of guide and operate.
//
//go:embed README.md guide/*.md operate/*.md
var Pages embed.FS
