package house

import (
	"go/ast"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard" // every built-in plug-in
)

// elsewhere lists the names of plug-ins that a package outside of the plug-in's room writes, as
// "package name", each with what the word means there. The list may only shrink.
var elsewhere = map[string]string{
	"trinity dpo": aSchema, "internal/config cpt": aSchema, "internal/config sft": aSchema,
	"internal/dataset cpt": aSchema, "internal/dataset dpo": aSchema,
	"internal/dataset kto": aSchema, "internal/dataset sft": aSchema,
	"internal/serve/annotate dpo": aSchema, "internal/serve/annotate kto": aSchema, "internal/serve/annotate sft": aSchema,

	"internal/config none": switchedOff, "registry none": switchedOff,
	"internal/run/host none": switchedOff, "internal/run/feed none": switchedOff,
	"internal/config default": upstreams, "internal/config ppo": upstreams,
	"internal/config sequential": upstreams, "internal/config linear_decay": upstreams,
	"workflow math_reward": upstreams, "workflow math_boxed_reward": upstreams,
	"workflow default": "a value of fusion_mode in Trinity-RFT", "workflow ruler_reward": upstreams, "workflow judge_reward": upstreams,

	"internal/serve/openai none": "a value of tool_choice", "internal/serve/gateway none": "a value of tool_choice",
	"internal/model/toolcall none": "a model that calls no tools",

	"internal/config http": aScheme, "internal/retry http": aScheme, "internal/wire/openai http": aScheme,
	"internal/serve/fleet http": aScheme, "launcher http": aScheme, "internal/wire/tinker http": aScheme,
	"internal/config cod": "a section of Trinity-RFT's files", "internal/run/checkpoint cod": "a section of Trinity-RFT's files",
	"internal/config memory": "a heading of the plan", "internal/run/place memory": "a controller of control groups",
	"internal/sandbox memory": "a controller of control groups", "internal/sandbox none": "an isolation",
	"internal/dataset default": "a subset or split of the hub", "internal/cli none": "the output of a program",
	"internal/cli simple_workflow": "the workflow of trinity eval, unless a setting names another",
	"reward python":                aLanguage, "reward bash": aLanguage, "operator/datajuicer python": "the name of its interpreter",
	"internal/bridge reasoning_gym": "a Python module", "internal/cli python": "the name of an interpreter",
	"internal/sweep random": "a way to search", "internal/config files": "a key of a plan in JSON", "internal/cli search": "a flag",
	"trinity jsd": "the field's word for a divergence",
	"internal/serve/tinker importance_sampling": ofTinker, "internal/serve/tinker ppo": ofTinker,
	"internal/serve/tinker external": ofWeights,
	"internal/serve/tinker cispo":    ofTinker, "internal/serve/tinker gspo": ofTinker,

	"internal/wire/finetune dpo": "a method of OpenAI's API", "internal/wire/finetune default": "a value of OpenAI's API",
	"internal/run/service grader_reward": "it scores by the grader objects of OpenAI's API",

	"model none": "a value of PEFT's and Hugging Face's files", "model default": "a value of Hugging Face's files",
	"internal/model/tokenizer default": "the chat template of tokenizer_config.json",

	"model/renderer/internal/jinja default": inJinja, "model/renderer/internal/jinja none": inJinja,
	"model/renderer/internal/jinja random": inJinja, "model/renderer/internal/jinja abs": inJinja,
	"reward/mathequal abs": "the absolute value", "reward abs": "the absolute value", "environment abs": "the absolute value",
}

const (
	aSchema     = "a schema of rows"
	aLanguage   = "a language of programs"
	aScheme     = "the scheme of a URL"
	switchedOff = "the value that switches a part of an algorithm off"
	upstreams   = "the default in Trinity-RFT"
	inJinja     = "a word of Jinja"
	ofTinker    = "a loss of the Tinker API"
	ofWeights   = "a kind of checkpoint of the Tinker API"
)

// A plug-in's name stands in its own room alone, so no other code changes when a plug-in comes or
// goes. internal/config/upstream.go is data: names of Trinity-RFT, some of which this program has.
func TestNamesOfPluginsStayInTheirRooms(t *testing.T) {
	rooms := map[string][]string{} // by name
	for _, kind := range registry.Kinds() {
		catalog, _ := registry.Find(kind)
		if len(catalog.Names()) == 0 {
			t.Errorf("there is no %s", kind)
		}
		for _, name := range catalog.Names() {
			rooms[name] = append(rooms[name], roomOf(kind, catalog.Default(name)))
		}
	}
	unseen := map[string]bool{}
	for exception := range elsewhere {
		unseen[exception] = true
	}
	for pkg, files := range packages(t) {
		for _, file := range files {
			if pkg == "internal/config" && slices.ContainsFunc(file.Decls, isUpstream) {
				continue
			}
			for _, word := range words(file) {
				at := named(pkg) + " " + word
				delete(unseen, at)
				if rooms[word] != nil && !slices.Contains(rooms[word], top(pkg)) && elsewhere[at] == "" {
					t.Errorf("package %s names the plug-in %q of %s: ask the registry", pkg, word, strings.Join(slices.Compact(rooms[word]), ", "))
				}
			}
		}
	}
	for at := range unseen {
		t.Errorf("%q is written no more: drop its exception", at)
	}
}

// roomOf returns the room of a plug-in's type. All algorithms have a type of the root.
func roomOf(kind string, plugin any) string {
	of := reflect.TypeOf(plugin)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.PkgPath() == module {
		return kind
	}
	return top(strings.TrimPrefix(of.PkgPath(), module+"/"))
}

// isUpstream reports whether a declaration is the table of Trinity-RFT's plug-ins.
func isUpstream(d ast.Decl) bool {
	g, ok := d.(*ast.GenDecl)
	return ok && slices.ContainsFunc(g.Specs, func(s ast.Spec) bool {
		v, ok := s.(*ast.ValueSpec)
		return ok && v.Names[0].Name == "upstream"
	})
}

// words returns the texts of a file. Of the struct tag of a key whose values are plug-ins it
// returns the default and the values beside the plug-ins.
func words(file *ast.File) (all []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if tag := reflect.StructTag(text); err == nil && tag.Get("plugin") != "" {
			all = append(all, strings.Split(tag.Get("enum"), "|")...)
			text = tag.Get("default")
		}
		all = append(all, text)
		return true
	})
	return all
}
