package main

import "regexp"

// waiting is the group of the time in which a core had nothing of ours to do, goRuntime that of what nothing of ours called.
const (
	waiting   = "waiting"
	goRuntime = "Go runtime"
)

// rule puts functions into a group of the profile.
type rule struct {
	group    string
	function *regexp.Regexp
}

// owners take all that they call: the tiles of attention are attention.
var owners = []rule{
	{"attention", regexp.MustCompile(`kernel\.(Attention\.|\(\*(block|gradBlock|decoder)\))`)},
	{"drawing tokens", regexp.MustCompile(`sampler\.\(\*(drawer|cutter)\)`)},
	{"loss and logits", regexp.MustCompile(`kernel\.(LogitStats|LogitBackward)`)},
}

// leaves sort the innermost function that is not the Go runtime's, the first rule that fits.
var leaves = []rule{
	{"matrix tiles", regexp.MustCompile(`kernel\.(.*Tile\d|\(\*kernels\)\.(block|product|blockProduct|packedProduct|rangedProduct|tileRows|groupColumns)|\(\*kStep\)|MatMul|\(\*Pool\)\.split)`)},
	{"packing and transposing", regexp.MustCompile(`kernel\..*([pP]ack|[tT]ranspose|[dD]eal)`)},
	{"AdamW", regexp.MustCompile(`kernel\..*[aA]dam`)},
	{"norms", regexp.MustCompile(`kernel\..*(RMSNorm|[nN]ormDX|[sS]caleMul|[mM]ulAdd|SumSquares|[dD]ot)`)},
	{"sharing out work", regexp.MustCompile(`kernel\.\(\*(Pool|job|shelf)\)`)},
	{"elementwise", regexp.MustCompile(`kernel\.|engine/cpu\.(gather|scatter|copy|clear|scale|each(Row|Block))`)},
	{"sampler", regexp.MustCompile(`engine/cpu/internal/sampler\.`)},
	{"engine", regexp.MustCompile(`engine/cpu\.`)},
	{"rest of the program", regexp.MustCompile(`.`)},
}

// shared functions count as their caller's: copying within packing is packing.
var shared = regexp.MustCompile(`^(runtime|internal|sync)[./]`)

// groupOf sorts a stack, the innermost function first, and names the function of ours that was running.
func groupOf(stack []string) (group, function string) {
	for _, f := range stack {
		if function == "" && !shared.MatchString(f) {
			function = f
		}
		for _, r := range owners {
			if r.function.MatchString(f) {
				return r.group, function
			}
		}
	}
	for _, r := range leaves {
		if r.function.MatchString(function) {
			return r.group, function
		}
	}
	if len(stack) > 0 {
		function = stack[0]
	}
	return goRuntime, function
}
