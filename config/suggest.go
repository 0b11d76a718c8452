package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/registry"
)

// unknownKeyHint says what to do about a key that a section does not have: its replacement when an older version had it, the key that was
// probably meant, or the section where it belongs.
func unknownKeyHint(section reflect.Type, path string) string {
	if hint := removedKey(path); hint != "" {
		return hint
	}
	keys := yamlKeys(section)
	name := lastKey(path)
	if near := nearest(name, keys); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if homes := homesOf(name); len(homes) > 0 && len(homes) <= 3 {
		return "it belongs at " + strings.Join(homes, " or ")
	}
	if near := nearestKey(path); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "known here: " + strings.Join(keys, ", ")
}

// neighbours are the paths of the schema by last key and by section.
var neighbours = sync.OnceValues(func() (byName, bySection map[string][]string) {
	byName, bySection = map[string][]string{}, map[string][]string{}
	for _, k := range keys() {
		byName[lastKey(k.Path)] = append(byName[lastKey(k.Path)], k.Path)
		bySection[parent(k.Path)] = append(bySection[parent(k.Path)], k.Path)
	}
	return byName, bySection
})

// homesOf lists the paths of the schema that end in a key.
func homesOf(name string) []string {
	byName, _ := neighbours()
	return slices.DeleteFunc(slices.Clone(byName[name]), func(path string) bool { return strings.HasPrefix(path, "stages.") })
}

// nearestKey returns the path of the schema that a path was probably meant to be: one with the same last key in another section, or a
// similar key of the same section. "" if there is none.
func nearestKey(path string) string {
	byName, bySection := neighbours()
	return nearest(path, slices.Concat(byName[lastKey(path)], bySection[parent(path)]))
}

// nearest returns the candidate most like a name, "" if none is like it.
func nearest(name string, candidates []string) string {
	if len(name) > 100 {
		return ""
	}
	return registry.Nearest(name, candidates)
}
