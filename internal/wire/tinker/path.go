package tinker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Path names a checkpoint, tinker://RUN/KIND/NAME.
type Path struct{ Run, Kind, Name string }

// The kinds of checkpoints: a training run resumes from the first, samplers load the second, and the third are files of
// Hugging Face.
const (
	Weights         = "weights"
	SamplerWeights  = "sampler_weights"
	ExternalWeights = "external_weights"
)

// Scheme begins every path.
const Scheme = "tinker://"

// checkpointName matches the name of a checkpoint, and runID the id of a run. Both become names of directories.
var (
	checkpointName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	runID          = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_:-]{0,127}$`)
)

// CheckName returns an error unless a checkpoint may have this name.
func CheckName(name string) error {
	if !checkpointName.MatchString(name) {
		return fmt.Errorf("the name %.140q of a checkpoint: want letters, digits, _, - and dots, 128 at most, and no dot first", name)
	}
	return nil
}

// ParsePath reads the path of a checkpoint.
func ParsePath(text string) (Path, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	parts := strings.Split(rest, "/")
	kinds := []string{Weights, SamplerWeights, ExternalWeights}
	if !ok || len(parts) != 3 || !runID.MatchString(parts[0]) || !slices.Contains(kinds, parts[1]) {
		return Path{}, fmt.Errorf("the path %.200q is not that of a checkpoint: want %sRUN/%s/NAME, or %s or %s in place of %s",
			text, Scheme, Weights, SamplerWeights, ExternalWeights, Weights)
	}
	return Path{parts[0], parts[1], parts[2]}, CheckName(parts[2])
}

func (p Path) String() string { return Scheme + p.Run + "/" + p.Kind + "/" + p.Name }
