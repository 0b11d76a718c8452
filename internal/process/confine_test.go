package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// confined does what its input says.
var confined = Confine("process-test", func(in *io.SectionReader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "got", string(text))
	switch string(text) {
	case "fail":
		return errors.New("no\nway")
	case "panic":
		panic("oh")
	case "grow":
		var held [][]byte
		for range 1 << 10 {
			held = append(held, make([]byte, 1<<30))
		}
		fmt.Fprintln(out, len(held))
	case "hang":
		time.Sleep(time.Hour) // a select would be a deadlock
	}
	return nil
})

func TestConfinedFunction(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "fail": "no way", "panic": "panic: oh", "grow": "it needs more memory than the 4 GiB that it gets",
	} {
		if text == "grow" && runtime.GOOS != "linux" {
			continue
		}
		var got strings.Builder
		err := confined.Run(t.Context(), strings.NewReader(text), func(out io.Reader) error {
			_, err := io.Copy(&got, out)
			return err
		})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || got.String() != "got "+text+"\n" {
			t.Errorf("%q: %q, %v, want %q", text, got.String(), err, want)
		}
	}
}

func TestConfinedFunctionIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	stopped := func(out io.Reader) error {
		_, _ = out.Read(make([]byte, 3))
		cancel(enough)
		_, err := io.Copy(io.Discard, out)
		return err
	}
	if err := confined.Run(ctx, strings.NewReader("hang"), stopped); !errors.Is(err, enough) {
		t.Error(err)
	}
	if err := confined.Run(t.Context(), strings.NewReader("hang"), func(io.Reader) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}
