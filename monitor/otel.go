package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
)

func init() {
	Monitors.Register("otel", "Sends metrics to an OpenTelemetry collector by OTLP over HTTP. Secrets: OTEL_EXPORTER_OTLP_HEADERS.",
		func() trinity.Monitor {
			return &otel{Follower: newFollower(), Endpoint: cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")}
		})
}

// otel sends each metric as a gauge, whose point has the record's time, role and step. A point that
// comes twice is the same point: its time is the record's.
type otel struct {
	Follower `yaml:",inline"`
	Endpoint string `yaml:"endpoint" doc:"base address of the collector; OTEL_EXPORTER_OTLP_ENDPOINT if that is set"`

	resource []byte // of the run, encoded
	header   http.Header
}

// Begin implements [Sink].
func (o *otel) Begin(_ context.Context, run Run) error {
	o.resource = nil
	for _, pair := range [][2]string{
		{"service.name", "trinity"}, {"service.instance.id", run.ID}, {"trinity.project", run.Project},
		{"trinity.group", run.Group}, {"trinity.run", run.Name},
	} {
		o.resource = message(o.resource, 1, attribute(pair[0], message(nil, 1, []byte(pair[1]))))
	}
	o.header = http.Header{"Content-Type": {"application/x-protobuf"}}
	for pair := range strings.SplitSeq(os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), ",") {
		if name, text, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
			text, err := url.PathUnescape(text)
			if err != nil {
				return fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the value of %q is not encoded as in URLs", name)
			}
			o.header.Set(name, text)
		}
	}
	return nil
}

// Send implements [Sink].
func (o *otel) Send(ctx context.Context, _ int64, records []trinity.Record) error {
	points := map[string][]byte{} // encoded, by metric
	for _, r := range records {
		step := varint(nil, 3, r.Step)
		at := protowire.AppendFixed64(protowire.AppendTag(nil, 3, protowire.Fixed64Type), uint64(r.Time.UnixNano()))
		for name, v := range r.Metrics {
			point := protowire.AppendTag(slices.Clone(at), 4, protowire.Fixed64Type)
			point = protowire.AppendFixed64(point, math.Float64bits(v))
			point = message(point, 7, attribute("role", message(nil, 1, []byte(r.Role))))
			points[name] = message(points[name], 1, message(point, 7, attribute("step", step)))
		}
	}
	scope := message(nil, 1, message(nil, 1, []byte("trinity")))
	for _, name := range slices.Sorted(maps.Keys(points)) {
		scope = message(scope, 2, message(message(nil, 1, []byte(name)), 5, points[name]))
	}
	body := message(nil, 1, message(message(nil, 1, o.resource), 2, scope))
	_, err := client().Do(ctx, retry.Request{
		Method: http.MethodPost, URL: strings.TrimRight(o.Endpoint, "/") + "/v1/metrics", Header: o.header, Body: body,
	})
	return err
}

// attribute is a key with an encoded value.
func attribute(key string, value []byte) []byte {
	return message(message(nil, 1, []byte(key)), 2, value)
}

// Tell implements [Sink]. OpenTelemetry knows no end of a run.
func (o *otel) Tell(context.Context, Status) error { return nil }

// Target implements [Sink].
func (o *otel) Target() string { return withoutSecrets(o.Endpoint) }

// Validate refuses an address that is none.
func (o *otel) Validate() error {
	return errors.Join(isAddress("endpoint", o.Endpoint), o.Follower.Validate())
}
