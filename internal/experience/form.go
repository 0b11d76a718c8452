package experience

import (
	"slices"
	"strings"
)

// Forms lists the endings that the name of an archive in files may have.
var Forms = []string{".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"}

// Form returns the ending of path that is in Forms; "" if there is none.
func Form(path string) string {
	if i := slices.IndexFunc(Forms, func(form string) bool { return strings.HasSuffix(path, form) }); i >= 0 {
		return Forms[i]
	}
	return ""
}
