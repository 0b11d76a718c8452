package manual

import (
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trinity-go/trinity/docs"
)

func TestPagesAreReadInOrder(t *testing.T) {
	got := Pages("# Documents\n\n## Guide\n\n- [Your own data](guide/own-data.md): a table, [a server](x.md)\n" +
		"- no link\n\n## Operate\r\n- [Modes](operate/modes.md)\r\n")
	want := []Page{
		{"Guide", "guide/own-data.md", "Your own data", "a table, [a server](x.md)"},
		{"Operate", "operate/modes.md", "Modes", ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each row has a Markdown text and what a terminal of 40 columns shows.
func TestTextIsPlain(t *testing.T) {
	for _, c := range []struct{ name, markdown, want string }{
		{"headings", "# One\nText.\n\n## Two words\n### Three", "One\n===\nText.\n\nTwo words\n---------\n\nThree\n"},
		{"a paragraph is filled", "one two three four five six\nseven eight nine ten eleven",
			"one two three four five six seven eight\nnine ten eleven\n"},
		{"emphasis", "**Bold**, *slanted* and `**code** [x](y.md)`, 2 * 3 * 4",
			"Bold, slanted and `**code** [x](y.md)`,\n2 * 3 * 4\n"},
		{"lists", "- one two three four five six seven eight nine\n- b\n  of two lines\n1. c",
			"- one two three four five six seven\n  eight nine\n- b of two lines\n1. c\n"},
		{"code keeps its lines", "Run:\n```sh\ntrinity run --config examples/quickstart/quickstart.yaml\n\n# **no** heading\n```\nDone.",
			"Run:\n\n    trinity run --config examples/quickstart/quickstart.yaml\n\n    # **no** heading\n\nDone.\n"},
		{"code without an end", "```\na", "    a\n"},
		{"a picture", "Before.\n\n![a plot](studio/plot.png)\n\nAfter ![x](y.png)all.", "Before.\n\nAfter all.\n"},
		{"comments", "<!-- measured -->\nText <!-- in\nlines -->here.", "Text here.\n"},
		{"links", "[a topic](gpu.md#begin), [here](#there), [web](https://example.com/a), [other](../reference/traces.md), " +
			"[docs/develop](../develop), [`examples/loop`](../../examples/loop), [`x`](../../python)",
			"a topic, here, web\n<https://example.com/a>, other\n(docs/reference/traces.md),\ndocs/develop, `examples/loop`, `x`\n(python)\n"},
		{"a table", "| a | **b** |\n|---|---:|\n| `x \\| y` | [z](gpu.md) |\n| only |\n", "a        b\n-------  -\n`x | y`  z\nonly\n"},
		{"a table that is too wide", "| name | what it is |\n|---|---|\n| one | a text of more than forty columns in a cell |\n" +
			"| averyveryverylongwordindeed | x |\n",
			"name                 what it is\n-------------------  -------------------\none                  a text of more than\n" +
				"                     forty columns in a\n                     cell\naveryveryverylongwo  x\nrdindeed\n"},
		{"the links of the end", "Text.\n\n" + Mark + "← [Quickstart](quickstart.md)\n", "Text.\n"},
		{"lines of Windows", "a\r\nb\r\n\r\n" + strings.TrimSuffix(Mark, "\n") + "\r\n← x", "a b\n"},
	} {
		got, _ := Text("guide/own-data.md", c.markdown, 40, func(p string) bool { return p == "guide/gpu.md" })
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestLinkedTopicsAreListedOnce(t *testing.T) {
	_, got := Text("guide/a.md", "[b](b.md), [b](b.md#x), [a](a.md), [c](../operate/c.md), `[d](d.md)`, [e](../reference/e.md)", 80,
		func(p string) bool { return !strings.HasPrefix(p, "reference") })
	if want := []string{"guide/b", "operate/c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Prose and tables of all pages fit a terminal, but for rows of many columns; no mark is left outside of code.
func TestEveryPageFits(t *testing.T) {
	all, err := fs.Glob(docs.Pages, "*/*.md")
	if err != nil || len(all) < 20 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	for _, name := range all {
		text, err := fs.ReadFile(docs.Pages, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{60, 100} {
			got, _ := Text(name, string(text), width, func(p string) bool { return path.Dir(p) == "guide" })
			for line := range strings.Lines(got) {
				line = strings.TrimRight(line, "\n")
				isCode := strings.HasPrefix(line, "    ")
				isOneWord := !strings.Contains(strings.TrimSpace(line), " ")
				if n := utf8.RuneCountInString(line); n > width && !isCode && !isOneWord && !strings.Contains(line, gap) {
					t.Errorf("%s at %d columns: %d: %s", name, width, n, line)
				}
				if outside := code.ReplaceAllString(line, ""); !isCode && (strings.Contains(outside, "](") || strings.Contains(outside, "<!--")) {
					t.Errorf("%s: a mark is left: %s", name, line)
				}
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("# a\n\n| b | `c` |\n|---|---|\n| [d](e.md) | f |\n\n- g\n```\nh\n", 40)
	f.Add("|\n||\n|---|", 0)
	f.Fuzz(func(t *testing.T, markdown string, width int) {
		width = min(width, 200)
		if text, _ := Text("guide/a.md", markdown, width, func(string) bool { return true }); !strings.HasSuffix(text, "\n") {
			t.Errorf("%q", text)
		}
	})
}
