package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/trinity-go/trinity/model"
)

// modelFamilies is the argument of list that is no kind of plug-in: the families of models, which are built in.
const modelFamilies = "model"

// listModels prints which engines compute each family of models.
func listModels(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(map[string][]model.Family{modelFamilies: model.Families()})
	}
	fmt.Fprintln(out, "model: Families of models by the model_type of config.json, and what computes them.")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  model_type\tembedded engine\ttrainer_type torch\tGGUF files\ttext part alone")
	for _, f := range model.Families() {
		fmt.Fprintf(w, "  %s\t%s\tyes\t%s\t%s\n", f.Name, yesOrNo(f.Embedded), yesOrNo(f.GGUF), cmp.Or(strings.Join(f.TextParts, ", "), "-"))
	}
	return w.Flush()
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
