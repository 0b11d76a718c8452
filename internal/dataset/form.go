package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// forms are what files of text begin with that are something else.
var forms = []struct{ begin, what string }{
	{"\xff\xfe\x00\x00", isUTF32}, {"\x00\x00\xfe\xff", isUTF32}, {"\xff\xfe", isUTF16}, {"\xfe\xff", isUTF16},
	{"\x1f\x8b", "is compressed by gzip: add .gz to its name"}, {"\x28\xb5\x2f\xfd", "is compressed by zstd: add .zst to its name"},
	{"PK\x03\x04", "is a ZIP archive or an Excel workbook: unpack it, or save the sheet as CSV"},
	{"PAR1", "is a Parquet file: let its name end in .parquet"}, {arrowMagic, "is an Arrow file: let its name end in .arrow"},
	{"version https://git-lfs.github.com/spec/",
		"is a pointer of Git LFS in place of the data: run git lfs pull, or download the file itself"},
	{"<!DOCTYPE", isPage}, {"<html", isPage},
}

const (
	isUTF16 = "is UTF-16, and datasets are UTF-8: convert it with iconv -f utf-16 -t utf-8"
	isUTF32 = "is UTF-32, and datasets are UTF-8: convert it with iconv -f utf-32 -t utf-8"
	isPage  = "is a page of HTML in place of the data: download the file itself"
)

// formBytes is how much of a file checkForm needs.
const formBytes = 64

// checkForm returns an error if a text, by its first bytes, is in another coding or form than UTF-8.
func checkForm(head []byte) error {
	for _, f := range forms {
		if bytes.HasPrefix(head, []byte(f.begin)) {
			return fmt.Errorf("the file %s", f.what)
		}
	}
	if len(head) < 4 {
		return nil
	}
	for _, c := range []struct{ zeros, what string }{ // without a byte order mark, ASCII tells the coding
		{"x000", isUTF32}, {"000x", isUTF32}, {"x0x0", isUTF16}, {"0x0x", isUTF16},
	} {
		same := true
		for i, zero := range []byte(c.zeros) {
			same = same && (head[i] == 0) == (zero == '0')
		}
		if same {
			return fmt.Errorf("the file %s", c.what)
		}
	}
	return nil
}

// inUTF8 returns a reader of a text, or the error of checkForm.
func inUTF8(r io.ReadCloser) (io.ReadCloser, error) {
	text := bufio.NewReaderSize(r, 1<<16)
	head, _ := text.Peek(formBytes) // a short file, or an error that the next read returns
	if err := checkForm(head); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{text, r}, nil
}

// isBegun reports whether a line is the beginning of an object or an array whose end it does not have.
func isBegun(line []byte) bool {
	if line[0] != '{' && line[0] != '[' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	for {
		if _, err := d.Token(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// rowLines checks lines that are rows.
type rowLines struct{ begun *lineError }

// check returns whether a line is a row. A line that is the beginning of one is an error once another
// line follows: a file that is cut off has another error, see end.
func (r *rowLines) check(number int, line []byte) (bool, error) {
	if r.begun != nil {
		return false, &lineError{r.begun.number,
			errors.New("the JSON of this row goes on in the next line, and .jsonl has a row a line: " +
				"let the name end in .json, or write the rows anew with jq -c")}
	}
	err := checkRow(line)
	if err != nil && !json.Valid(line) && isBegun(line) {
		r.begun = &lineError{number, err}
		return false, nil
	}
	if number == 1 && line[0] == '[' && json.Valid(line) {
		err = errors.New("a JSON array, and .jsonl has a row a line: let the name end in .json, or write the rows anew with jq -c '.[]'")
	}
	if err != nil {
		return false, &lineError{number, err}
	}
	return true, nil
}

// end returns the error of a last line that is not whole.
func (r *rowLines) end() error {
	if r.begun != nil {
		return r.begun
	}
	return nil
}

// repairOf says what to do about text that Python writes in place of JSON, "" if it is none.
func repairOf(text []byte) string {
	err := syntaxError(text)
	syntax := (*json.SyntaxError)(nil)
	if !errors.As(err, &syntax) || syntax.Offset < 1 || int(syntax.Offset) > len(text) {
		return ""
	}
	rest := text[syntax.Offset-1:]
	switch {
	case rest[0] == '\'':
		return ": this is a dict as Python prints it: write it with json.dumps"
	case bytes.HasPrefix(rest, []byte("NaN")), bytes.HasPrefix(rest, []byte("Infinity")):
		return ": JSON has no such number: write null"
	case bytes.HasPrefix(rest, []byte("None")), bytes.HasPrefix(rest, []byte("True")), bytes.HasPrefix(rest, []byte("False")):
		return ": this is a value as Python prints it: write it with json.dumps"
	}
	return ""
}
