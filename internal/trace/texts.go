package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// TextsFile has the text of every token in the trace, one JSON object per line, so that a trace reads
// without its tokenizer.
const TextsFile = "tokens.jsonl"

type text struct {
	Token int32  `json:"token"`
	Text  string `json:"text"`
}

// texts adds the texts of tokens to their file.
type texts struct {
	file  *os.File
	known map[int32]bool
}

func openTexts(dir string) (*texts, error) {
	t := &texts{known: map[int32]bool{}}
	known, err := ReadTexts(dir)
	if err != nil {
		return nil, err
	}
	for token := range known {
		t.known[token] = true
	}
	t.file, err = os.OpenFile(filepath.Join(dir, TextsFile), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	_, err = t.file.WriteString("\n") // a killed process may have left half a line
	return t, err
}

// add writes the texts of tokens that are not in the file.
func (t *texts) add(tokens []int32, textOf func(int32) string) error {
	var out []byte
	for _, token := range tokens {
		if t.known[token] {
			continue
		}
		t.known[token] = true
		line, err := json.Marshal(text{token, textOf(token)})
		if err != nil {
			return err
		}
		out = append(append(out, line...), '\n')
	}
	if out == nil {
		return nil
	}
	_, err := t.file.Write(out)
	return err
}

func (t *texts) close() error { return t.file.Close() }

// ReadTexts reads the texts of the tokens in a trace. It skips damaged lines.
func ReadTexts(dir string) (map[int32]string, error) {
	known := map[int32]string{}
	file, err := os.Open(filepath.Join(dir, TextsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return known, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		var t text
		if json.Unmarshal(line, &t) == nil {
			known[t.Token] = t.Text
		}
	}
}
