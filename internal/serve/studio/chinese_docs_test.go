package studio

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/examples"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
)

// zh/docs.js has Chinese for the descriptions of all keys of the configuration, of all arguments of plug-ins and of all templates.
func TestTheDescriptionsAreChinese(t *testing.T) {
	chinese := map[string]string{} // the key that the table has, by the checksum
	for key := range entriesOf(t, "zh/docs.js") {
		_, sum, _ := strings.Cut(key, " ")
		if chinese[sum] != "" {
			t.Errorf("page/zh/docs.js: %q and %q have one checksum", chinese[sum], key)
		}
		chinese[sum] = key
	}
	docs := map[string]string{} // by checksum, what many keys share once
	note := func(key, doc string) {
		sum := checksum(doc)
		if other, ok := docs[sum]; ok && other != doc {
			t.Errorf("%q and %q have one checksum: write one of them otherwise", doc, other)
		} else if !ok && chinese[sum] == "" && doc != "" {
			t.Errorf("page/zh/docs.js lacks Chinese for %s: %s\nThe line is:\n  \"%s %s\": \"\",", key, doc, key, sum)
		}
		docs[sum] = doc
	}
	for _, k := range config.Keys() {
		if k.Auto != "" {
			continue
		}
		doc, err := k.Explain()
		if err != nil {
			t.Fatal(err)
		}
		note(k.Path, doc)
		if c, ok := registry.Find(k.Plugin); ok {
			arguments(t, c, func(name, doc string) { note(k.Plugin+"."+name, doc) })
		}
	}
	templateDocs(t, func(name, doc string) { note("templates/"+name, doc) })
	for sum, key := range chinese {
		if docs[sum] == "" {
			t.Errorf("page/zh/docs.js: the description of %q has changed or is gone: remove the line, and write the Chinese of the new one", key)
		}
	}
}

// arguments calls note for each argument of the plug-ins of a kind.
func arguments(t *testing.T, c *registry.Catalog, note func(name, doc string)) {
	t.Helper()
	for _, name := range c.Names() {
		info, err := c.Explain(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range info.Fields {
			note(name+"."+f.Key, f.Doc)
		}
	}
}

// templateDocs calls note for each template that the studio offers: the kinds of trinity init, and the comments with which
// examples begin.
func templateDocs(t *testing.T, note func(name, doc string)) {
	t.Helper()
	source, err := os.ReadFile("../../cli/init.go")
	if err != nil {
		t.Fatal(err)
	}
	_, kinds, ok := strings.Cut(string(source), "var taskKinds = ")
	kinds, _, _ = strings.Cut(kinds, "\n}\n")
	found := regexp.MustCompile(`\{"(\w+)", "([^"]+)"\}`).FindAllStringSubmatch(kinds, -1)
	if !ok || len(found) == 0 {
		t.Fatal("internal/cli/init.go has no taskKinds")
	}
	for _, kind := range found {
		note(kind[1], kind[2])
	}
	err = fs.WalkDir(examples.Configs, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "own_") { // the studio offers none of these
			return err
		}
		text, err := fs.ReadFile(examples.Configs, name)
		doc := ""
		for line := range strings.Lines(string(text)) {
			comment, ok := strings.CutPrefix(line, "#")
			if !ok {
				break
			}
			doc = strings.TrimSpace(doc + " " + strings.TrimSpace(comment))
		}
		note(strings.TrimSuffix(name, ".yaml"), doc)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checksum is that of checksum in zh.js.
func checksum(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return fmt.Sprintf("%08x", sum.Sum32())
}
