package archive

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// column is that of Parquet's rows which has all of an experience.
const column = "experience"

// Experience is what a row of an archive says, as a dataset reads it: bytes that are no UTF-8 are text in base64.
func Experience(row map[string]any) (*trinity.Experience, error) {
	if text, ok := row[column].(string); ok {
		return fromColumn(text)
	}
	data, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	e := new(trinity.Experience)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("not an experience: %w", err)
	}
	if len(e.Tokens) == 0 {
		return nil, fmt.Errorf("not an experience: it has no tokens: want rows as input_save_path and output_save_path write them")
	}
	return e, e.Check()
}

func fromColumn(text string) (*trinity.Experience, error) {
	data := []byte(text)
	if !strings.HasPrefix(text, experience.Magic) {
		var err error
		if data, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("column %s: %w", column, err)
		}
	}
	return experience.Decode(data)
}
