package dataset

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// coded returns a text in UTF-16, little or big endian, with or without a byte order mark.
func coded(text string, order binary.AppendByteOrder, mark bool) string {
	var out []byte
	if mark {
		text = "\uFEFF" + text
	}
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

// A file in another coding or form than its name says has an error that says which.
func TestForms(t *testing.T) {
	const rows = "{\"q\": \"é\"}\n{\"q\": \"b\"}\n"
	const notUTF8 = "the file is UTF-16, and datasets are UTF-8: convert it with iconv"
	files, wants := map[string]string{}, map[string]string{}
	for name, want := range map[string][2]string{
		"little.jsonl": {coded(rows, binary.LittleEndian, true), notUTF8}, "big.jsonl": {coded(rows, binary.BigEndian, true), notUTF8},
		"bare_little.json": {coded("["+rows[:9]+"]", binary.LittleEndian, false), notUTF8}, "bare_big.json": {coded("[{}]",
			binary.BigEndian, false), notUTF8},
		"table.csv": {coded("q,a\n1,2\n", binary.LittleEndian, true), notUTF8}, "bare.tsv": {coded("q\ta\n1\t2\n",
			binary.BigEndian, false), notUTF8},
		"wide.jsonl":    {"\xff\xfe\x00\x00{\x00\x00\x00", "the file is UTF-32"},
		"little.csv.gz": {gz(t, coded("q,a\n", binary.LittleEndian, true)), notUTF8},
		"pretty.jsonl": {"{\n  \"q\": \"a\",\n  \"n\": [1,\n 2]\n}\n",
			"pretty.jsonl:1: the JSON of this row goes on in the next line, and .jsonl has a row a line: let the name end in .json"},
		"array.jsonl":  {"[\n  {\"q\": \"a\"},\n  {\"q\": \"b\"}\n]\n", "array.jsonl:1: the JSON of this row goes on in the next line"},
		"later.ndjson": {"{\"q\": \"a\"}\n{\"q\":\n\"b\"}\n", "later.ndjson:2: the JSON of this row goes on"},
		"flat.jsonl":   {"[{\"q\": \"a\"}, {\"q\": \"b\"}]\n", "flat.jsonl:1: a JSON array, and .jsonl has a row a line"},
		"cut.jsonl":    {"{\"q\": \"a\"}\n{\"q\": \"b", "cut.jsonl:2: not JSON: unexpected end of JSON input"},
		"broken.jsonl": {"{\"q\": }\n{\"q\": \"b\"}\n", "broken.jsonl:1: not JSON: invalid character"},
		"python.jsonl": {"{'q': 'a'}\n",
			"python.jsonl:1: not JSON: invalid character '\\'' looking for beginning of object key string: this is a dict as Python prints it"},
		"nan.json": {"[{\"q\": NaN}]", "JSON has no such number: write null"}, "inf.jsonl": {"{\"q\": -Infinity}\n",
			"JSON has no such number"},
		"none.jsonl": {"{\"q\": None}\n", "write it with json.dumps"},
		"gz.jsonl":   {gz(t, rows), "the file is compressed by gzip: add .gz"}, "zst.json": {zst(t, rows),
			"the file is compressed by zstd"},
		"book.csv":   {"PK\x03\x04\x14\x00", "Excel workbook"},
		"lfs.csv":    {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS"},
		"page.jsonl": {"<!DOCTYPE html>\n<html>\n", "is a page of HTML"}, "columns.json": {"PAR1\x15\x04", "is a Parquet file"},
	} {
		files[name], wants[name] = want[0], want[1]
	}
	dir := write(t, files)
	for name, want := range wants {
		if _, err := Open(t.Context(), dir+"/"+name, Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want an error with %q", name, err, want)
		}
	}
}

// Short and ordinary files have no other form.
func TestFormsOfOrdinaryFiles(t *testing.T) {
	for _, head := range []string{"", "{", "[]", "\xef\xbb\xbf{}", "q,a\n", "é", "{\"a\": 1}", "P", "日本語,答え\n"} {
		if err := checkForm([]byte(head)); err != nil {
			t.Errorf("%q: %v", head, err)
		}
	}
	for line, want := range map[string]bool{"{": true, "[": true, `{"a": [1,`: true, `{"a": "b`: true, `{"a": }`: false,
		`{"a" 1`: false, "3": false, `{'a'`: false} {
		if isBegun([]byte(line)) != want {
			t.Errorf("%s: want %v", line, want)
		}
	}
}
