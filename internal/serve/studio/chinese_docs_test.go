package studio

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
)

// zh/docs.js has Chinese for the descriptions of all keys of the configuration, and of all arguments of plug-ins.
func TestTheDescriptionsAreChinese(t *testing.T) {
	chinese := map[string]string{} // the key that the table has, by the checksum
	for key := range entriesOf(t, "zh/docs.js") {
		_, sum, _ := strings.Cut(key, " ")
		if chinese[sum] != "" {
			t.Errorf("page/zh/docs.js: %q and %q have one checksum", chinese[sum], key)
		}
		chinese[sum] = key
	}
	docs, order := map[string]string{}, []string(nil)
	note := func(key, doc string) {
		if _, ok := docs[checksum(doc)]; !ok && doc != "" {
			order = append(order, checksum(doc))
			docs[checksum(doc)] = key
			if chinese[checksum(doc)] == "" {
				t.Errorf("page/zh/docs.js lacks Chinese for %s: %s\nThe line is:\n  \"%s %s\": \"\",", key, doc, key, checksum(doc))
			}
		}
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
		c, ok := registry.Find(k.Plugin)
		if !ok {
			continue
		}
		for _, name := range c.Names() {
			info, err := c.Explain(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range info.Fields {
				note(k.Plugin+"."+name+"."+f.Key, f.Doc)
			}
		}
	}
	for sum, key := range chinese {
		if docs[sum] == "" {
			t.Errorf("page/zh/docs.js: the description of %q has changed or is gone: remove the line, and write the Chinese of the new one", key)
		}
	}
}

func checksum(text string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return fmt.Sprintf("%08x", sum.Sum32())
}
