package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is a parsed name.
type repository struct {
	modelScope bool
	dataset    bool
	id         string // "org/name", or "name" of some old models
	revision   string // never empty
	noWeights  bool   // of a model its weights are not wanted
}

var (
	idPattern       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	etagPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	sha256Pattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// parseName parses [hf://|modelscope://][models/|datasets/]org/name[@revision].
func parseName(name string) (repository, error) {
	var r repository
	rest := strings.TrimPrefix(name, "hf://")
	if after, ok := strings.CutPrefix(name, "modelscope://"); ok {
		r.modelScope, rest = true, after
	}
	if after, ok := strings.CutPrefix(rest, "datasets/"); ok {
		r.dataset, rest = true, after
	} else if after, ok := strings.CutPrefix(rest, "models/"); ok {
		rest = after
	}
	r.id, r.revision, _ = strings.Cut(rest, "@")
	if !idPattern.MatchString(r.id) || strings.Contains(r.id, "..") || strings.Contains(r.id, "--") || strings.HasSuffix(r.id, ".git") {
		return r, fmt.Errorf("hub: %q is not the name of a model or dataset; "+
			"expected org/name, hf://org/name, hf://datasets/org/name or modelscope://org/name", name)
	}
	return r.at(r.revision)
}

// at returns the repository at another revision; "" means the default branch.
func (r repository) at(revision string) (repository, error) {
	r.revision = revision
	if revision == "" {
		r.revision = "main"
		if r.modelScope {
			r.revision = "master"
		}
	}
	if !revisionPattern.MatchString(r.revision) || strings.Contains(r.revision, "..") || len(r.revision) > 200 {
		return r, fmt.Errorf("hub: %s: %q is not a revision; expected a branch, tag or commit", r.id, revision)
	}
	return r, nil
}

func (r repository) String() string {
	name := r.id
	if r.dataset {
		name = "datasets/" + name
	}
	if r.modelScope {
		name = "modelscope://" + name
	}
	return name
}

func (r repository) kind() string {
	if r.dataset {
		return "datasets"
	}
	return "models"
}

// folder returns the name of the repository's directory in the cache.
func (r repository) folder() string { return r.kind() + "--" + strings.ReplaceAll(r.id, "/", "--") }

// ref returns the file below refs/ that holds the commit of the revision. ModelScope has a
// directory of its own, because the same name may mean other files there.
func (r repository) ref() string {
	if r.modelScope {
		return "modelscope/" + r.revision
	}
	return r.revision
}

// safePath reports whether a path from a server stays inside its directory, on every system.
func safePath(path string) bool {
	return path != "" && !strings.ContainsAny(path, "\\:\x00") && filepath.IsLocal(filepath.FromSlash(path)) &&
		!strings.HasPrefix(path, "/") &&
		len(path) < 1000
}

// weightsEnding ends the names of files of weights.
const weightsEnding = ".safetensors"

var (
	modelFiles   = []string{".json", weightsEnding, ".txt", ".model", ".jinja"}
	datasetCard  = "README.md" // lists the files of the dataset's subsets and splits
	datasetFiles = []string{".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".txt", ".gz", ".zst", ".zip"}
	imageFiles   = []string{".png", ".jpg", ".jpeg", ".gif", ".webp"} // that rows name by their paths
)

// wanted reports whether a model or dataset needs the file. A repository may also hold copies in
// other formats.
func (r repository) wanted(path string) bool {
	return r.dataset && (path == datasetCard || endsWithOne(path, imageFiles)) || r.holds(path)
}

// endsWithOne reports whether the name of a file has one of the endings.
func endsWithOne(path string, endings []string) bool {
	return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(strings.ToLower(path), ending) })
}

// holds reports whether a file is part of the model or dataset itself.
func (r repository) holds(path string) bool {
	endings := modelFiles
	if r.dataset {
		endings = datasetFiles
	} else if strings.Contains(path, "/") || strings.HasPrefix(path, "consolidated") {
		return false
	}
	return endsWithOne(path, endings) && !(r.noWeights && endsWithOne(path, []string{weightsEnding}))
}
