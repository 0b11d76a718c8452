package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// unknownKeyHint returns a hint for a key that a section does not have: its replacement if an older
// version had it, the section where it belongs, or a similar key.
func unknownKeyHint(section reflect.Type, path string) string {
	if hint := removedKey(path); hint != "" {
		return hint
	}
	keys := yamlKeys(section)
	if homes := homesOf(path); len(homes) > 0 {
		return "it belongs at " + strings.Join(homes, " or ")
	}
	if near := nearest(lastKey(path), keys); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	byName, _ := neighbours()
	if near := nearest(path, byName[lastKey(path)]); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "known here: " + strings.Join(keys, ", ")
}

// neighbours are the paths of the schema, by last key and by section.
var neighbours = sync.OnceValues(func() (byName, bySection map[string][]string) {
	byName, bySection = map[string][]string{}, map[string][]string{}
	for _, k := range keys() {
		byName[lastKey(k.Path)] = append(byName[lastKey(k.Path)], k.Path)
		bySection[parent(k.Path)] = append(bySection[parent(k.Path)], k.Path)
	}
	return byName, bySection
})

// homesOf lists the paths of the schema that end in the last key of a path. If there are many, it
// lists only those in the sections around the path, or for a key at the top, those nearest to it.
func homesOf(path string) []string {
	const many = 4
	byName, _ := neighbours()
	homes := slices.DeleteFunc(slices.Clone(byName[lastKey(path)]), func(home string) bool { return strings.HasPrefix(home, "stages.") })
	if len(homes) < many {
		return homes
	}
	if parent(path) == "" { // the homes that are nearest to the top
		depth := func(home string) int { return strings.Count(home, ".") }
		least := depth(slices.MinFunc(homes, func(a, b string) int { return depth(a) - depth(b) }))
		homes = slices.DeleteFunc(homes, func(home string) bool { return depth(home) > least })
		if len(homes) < many {
			return homes
		}
		return nil
	}
	return slices.DeleteFunc(homes, func(home string) bool {
		section := parent(home)
		return section != "" && !below(path, section) && !below(path, "stages.*."+section)
	})
}

// nearestKey returns the path of the schema that the writer of a path probably meant: a similar key
// of the same section, or the same last key in another section. It returns "" if there is none.
func nearestKey(path string) string {
	byName, bySection := neighbours()
	section := bySection[parent(path)]
	names := make([]string, len(section))
	for i, p := range section {
		names[i] = lastKey(p)
	}
	if near := nearest(lastKey(path), names); near != "" {
		return tags.Join(parent(path), near)
	}
	return nearest(path, byName[lastKey(path)])
}

// nearest returns the candidate most similar to a name, "" if none is similar.
func nearest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	return registry.Nearest(name, candidates)
}
