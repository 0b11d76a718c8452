package rows

import (
	"context"
	"fmt"
	"slices"

	"github.com/abadojack/whatlanggo"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("language_filter",
		"Keeps rows whose text is in one of the languages, judged by its three-letter sequences and letters. "+
			"Statistics: lang, lang_score. Unlike Data-Juicer's language_id_score_filter, which asks a model and "+
			"needs its service, this filter needs a sentence or two: for shorter texts the guess has a low score "+
			"or is wrong, and texts of digits have no language.",
		func() trinity.TaskOperator { return &languageFilter{TextKey: TextKey{"text"}} })
}

// languageFilter filters by the language of a text.
type languageFilter struct {
	TextKey  `yaml:",inline"`
	Lang     []string `yaml:"lang" required:"name languages, such as [en]" doc:"codes of ISO 639-1 or 639-3: en, zh, deu…"`
	MinScore float64  `yaml:"min_score" range:"[0,1]" doc:"least confidence; 0 accepts every guess"`
}

// Validate requires known languages.
func (f *languageFilter) Validate() error {
	for _, code := range f.Lang {
		if language(code) < 0 {
			return fmt.Errorf("lang: unknown language %q: write a code of ISO 639, such as en or eng", code)
		}
	}
	return nil
}

// language returns the language of a code, less than 0 if the code is unknown.
func language(code string) whatlanggo.Lang {
	for lang := range whatlanggo.Langs {
		if lang.Iso6391() == code || lang.Iso6393() == code {
			return lang
		}
	}
	return -1
}

// Process implements trinity.TaskOperator.
func (f *languageFilter) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	var wanted []whatlanggo.Lang
	for _, code := range f.Lang {
		wanted = append(wanted, language(code))
	}
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		s, err := f.text(r)
		if err != nil {
			return false, err
		}
		found := whatlanggo.Detect(s)
		if found.Confidence == 0 { // two languages are equally likely, or there is none
			found.Lang = -1
		}
		r.Stats["lang"], r.Stats["lang_score"] = found.Lang.Iso6393(), found.Confidence
		return slices.Contains(wanted, found.Lang) && found.Confidence >= f.MinScore, nil
	})
}
