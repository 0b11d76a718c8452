package dataset

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// A length in these files is some bits off: decoders ask for up to 1.2 TB.
func TestLengthsThatAreTooLarge(t *testing.T) {
	files, err := filepath.Glob("testdata/damaged/*")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		want := map[string]string{".parquet": "unreadable Parquet file: ", ".arrow": "unreadable Arrow file: "}[filepath.Ext(path)]
		if runtime.GOOS == "linux" {
			want += "it needs more memory than the 4 GiB that it gets; damaged files do so"
		}
		_, err := Open(t.Context(), path, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), path+": "+want) || len(err.Error()) > 200 {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The libraries panic at these flipped bits. The error names the part of the file that is damaged.
func TestPartsThatAreDamaged(t *testing.T) {
	for _, c := range []struct {
		path, want string
		at         int
		bits       byte
	}{
		{"stream.arrow", ": unreadable Arrow file: its schema or its footer", 967, 16},
		{"file_lz4.arrow", ": unreadable Arrow file: its schema or its footer", 11167, 64},
		{"file_lz4.arrow", ", row 0: record batch 1", 3001, 8},
		{"stream.arrow", ", row 2: record batch 2", 4694, 2},
		{"stream.arrow", `, row 0: column "question"`, 2048, 32},
		{"types_snappy_v1.parquet", ", row 0: row group 1", 4868, 4},
	} {
		data, err := os.ReadFile("testdata/" + c.path)
		if err != nil {
			t.Fatal(err)
		}
		data[c.at] ^= c.bits
		_, err = held(c.path, data, Options{}).read(t.Context())
		if want := c.path + c.want + " is damaged: write the file again"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A file of 1 KB can hold any number of rows without values.
func TestRowsThatAreTooMany(t *testing.T) {
	const rows = 1 << 40
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.Null, Nullable: true}}, nil)
	var file bytes.Buffer
	w := ipc.NewWriter(&file, ipc.WithSchema(schema))
	err := w.Write(array.NewRecordBatch(schema, []arrow.Array{array.NewNull(rows)}, rows))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	bomb := zst(t, strings.Repeat("{}\n", 1<<22))
	for path, data := range map[string][]byte{"rows.arrow": file.Bytes(), "rows.jsonl.zst": []byte(bomb)} {
		_, err := held(path, data, Options{held: 64}).read(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), path+": its rows are more than 10000 times as long as the file") {
			t.Error(path, err)
		}
	}
}

func TestDecodingIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Open(ctx, "testdata/stream.arrow", Options{}); !errors.Is(err, enough) {
		t.Error(err)
	}
}
