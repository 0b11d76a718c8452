package workflow

import (
	"maps"
	"reflect"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// playOf returns the defaults of a workflow whose environment is called like it.
func playOf(workflow string) playArgs {
	p := defaultPlay()
	p.Environment = strings.TrimSuffix(workflow, "_workflow")
	return p
}

// packOf returns the defaults of a workflow whose environment is called like it.
func packOf(workflow string) packPlay {
	return packPlay{packArgs: defaultPack(), playArgs: playOf(workflow)}
}

// preset gives the environment arguments, over which environment_args go.
func (p *playArgs) preset(args map[string]any) {
	maps.Copy(args, p.EnvironmentArgs)
	p.EnvironmentArgs = args
}

// argsOf returns the fields of a struct by their keys, without those that are null.
func argsOf(fields any) map[string]any {
	args, v := map[string]any{}, reflect.ValueOf(fields).Elem()
	for _, f := range tags.Fields(v.Type()) {
		if of := reflect.Indirect(v.FieldByIndex(f.Index)); of.IsValid() {
			args[tags.Key(f)] = of.Interface()
		}
	}
	return args
}
