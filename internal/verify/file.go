package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// line is one JSON value in a file of records. It may come from
//
//	trinity score            tokens, logprobs
//	trinity generate --json  prompt_tokens, tokens, logprobs of tokens
//	a run                    an experience, or a list of experiences
//	another engine           the same keys
//
// Decoding ignores other keys.
type line struct {
	PromptTokens []int32    `json:"prompt_tokens"`
	Tokens       []int32    `json:"tokens"`
	Logprobs     []*float64 `json:"logprobs"` // null where unknown
	Best         []*int32   `json:"best"`     // the most likely token at each position, null where unknown
	Mask         []bool     `json:"mask"`
	PromptLen    int        `json:"prompt_len"`
	Temperature  *float64   `json:"temperature"`
	TopP         *float64   `json:"top_p"`
	IsExpert     bool       `json:"is_expert"`
	Versions     []int64    `json:"versions"` // of the weights, in experiences of a run
}

// ReadRecords reads a file of JSON lines, or all files *.jsonl in a directory. It is an error if
// there are no records.
func ReadRecords(path string) ([]*Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.jsonl")); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s holds no file *.jsonl of records", path)
		}
	}
	var records []*Record
	for _, file := range files {
		read, err := readFile(file)
		if err != nil {
			return nil, err
		}
		records = append(records, read...)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s holds no records", path)
	}
	return records, nil
}

func readFile(path string) ([]*Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeRecords(f, path)
}

// maxLine is the size of the longest line, in bytes.
const maxLine = 64 << 20

func decodeRecords(in io.Reader, name string) ([]*Record, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var records []*Record
	number := 0
	for lines.Scan() {
		number++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		place := fmt.Sprintf("%s:%d", name, number)
		list, err := decodeLine(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		for i := range list {
			r, err := list[i].record()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", place, err)
			}
			r.Place = place
			records = append(records, r)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, number+1, err)
	}
	return records, nil
}

func decodeLine(text []byte) (list []line, err error) {
	if text[0] == '[' {
		err = json.Unmarshal(text, &list)
	} else {
		list = make([]line, 1)
		err = json.Unmarshal(text, &list[0])
	}
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) && typed.Field != "" {
		return nil, fmt.Errorf("%q is a JSON %s: want tokens, logprobs, best, mask as lists, prompt_len, temperature, top_p as numbers",
			typed.Field, typed.Value)
	}
	return list, err
}

// record converts the line to a record and checks it.
func (l *line) record() (*Record, error) {
	if l.Tokens == nil {
		return nil, errors.New(`there is no "tokens", the list of token ids`)
	}
	r := &Record{Tokens: l.Tokens, PromptLen: l.PromptLen, Mask: l.Mask}
	if l.Temperature != nil {
		if r.Temperature = *l.Temperature; r.Temperature == 0 { // greedy: the engine drew no token
			r.PromptLen = 0
		}
	}
	if l.TopP != nil {
		r.TopP = *l.TopP
	}
	r.Selected = l.Versions != nil && l.TopP == nil // experiences do not hold top_p, and operators select experiences
	logprobs := l.Logprobs
	if l.PromptTokens != nil {
		if len(logprobs) > 0 && len(logprobs) != len(l.Tokens) {
			return nil, fmt.Errorf("%d logprobs for %d tokens", len(logprobs), len(l.Tokens))
		}
		r.Tokens = slices.Concat(l.PromptTokens, l.Tokens)
		logprobs = append(make([]*float64, len(l.PromptTokens)), logprobs...)
		if r.PromptLen = 0; r.Temperature > 0 { // the temperature is known
			r.PromptLen = len(l.PromptTokens)
		}
	}
	if l.IsExpert || l.Mask != nil && l.Logprobs == nil { // a demonstration: no engine drew it
		r.PromptLen = 0
	}
	if len(logprobs) > 0 {
		r.Logprobs = make([]float64, len(logprobs))
		for t, v := range logprobs {
			r.Logprobs[t] = math.NaN()
			if v != nil && (l.Mask == nil || t < len(l.Mask) && l.Mask[t]) {
				r.Logprobs[t] = *v
			}
		}
	}
	if l.Best != nil {
		r.Best = make([]int32, len(l.Best))
		for t, v := range l.Best {
			r.Best[t] = -1
			if v != nil {
				r.Best[t] = *v
			}
		}
	}
	return r, r.check()
}
