package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity/internal/retry"
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
	err = eachField(reply.Body, func(num protowire.Number, _ uint64, partial []byte) error {
		if num != 1 || partial == nil {
			return nil
		}
		return eachField(partial, func(num protowire.Number, v uint64, text []byte) error {
			switch num {
			case 1:
				refused = int64(v)
			case 2:
				why = string(text)
			}
			return nil
		})
	})
	return refused, why, err
}

// eachField calls visit with the fields of an encoded message: a number, or bytes that are not nil.
func eachField(b []byte, visit func(num protowire.Number, v uint64, b []byte) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return protowire.ParseError(n)
		}
		var v uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			v, _ = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, _ = protowire.ConsumeBytes(b)
			text = append([]byte{}, text...)
		}
		if err := visit(num, v, text); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
