package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// otelAnswer returns how much a collector refuses of what it got, and why. An empty answer accepts all.
// Some collectors answer in JSON.
func otelAnswer(reply *retry.Reply) (refused int64, why string, err error) {
	kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	switch {
	case len(reply.Body) == 0:
		return 0, "", nil
	case kind == "application/json":
		var answer struct {
			Partial struct {
				Points json.Number `json:"rejectedDataPoints"`
				Spans  json.Number `json:"rejectedSpans"`
				Logs   json.Number `json:"rejectedLogRecords"`
				Why    string      `json:"errorMessage"`
			} `json:"partialSuccess"`
		}
		err = json.Unmarshal(reply.Body, &answer)
		refused, _ = cmp.Or(answer.Partial.Points, answer.Partial.Spans, answer.Partial.Logs).Int64() // 0 if there is none
		return refused, answer.Partial.Why, err
	case kind != "" && kind != "application/x-protobuf":
		return 0, "", fmt.Errorf("its type is %s", kind)
	}
	err = protobuf.Each(reply.Body, func(f protobuf.Field) error {
		if f.Number != 1 {
			return nil
		}
		return f.Each(func(f protobuf.Field) error {
			switch f.Number {
			case 1:
				n, err := f.Varint()
				refused = int64(n)
				return err
			case 2:
				text, err := f.Bytes()
				why = string(text)
				return err
			}
			return nil
		})
	})
	return refused, why, err
}
