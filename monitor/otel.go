package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

func init() {
	Monitors.Register("otel", "Sends metrics, spans and logs to an OpenTelemetry collector by OTLP over HTTP. "+
		"Secrets: OTEL_EXPORTER_OTLP_HEADERS.",
		func() trinity.Monitor {
			return &otel{Follower: newFollower(), Spans: true, Logs: true,
				Endpoint: cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")}
		})
}

// otel sends each metric as a gauge, whose point has the record's time, role and step, each span of the
// run's trace, and as logs what the run says and which rollouts failed. What comes twice is the same there:
// a point by its time, a span by its ID. A log record has no ID, so it may be there twice after a kill.
type otel struct {
	Follower `yaml:",inline"`
	Endpoint string `yaml:"endpoint" doc:"base address of the collector; OTEL_EXPORTER_OTLP_ENDPOINT if that is set"`
	Spans    bool   `yaml:"spans" doc:"send the spans of the run's trace too: who worked and who waited for whom"`
	Logs     bool   `yaml:"logs" doc:"send what the run says, the rollouts that failed and how the run ended, as logs"`

	run      Run
	resource []byte // of the run, encoded
	header   http.Header
	noSpans  bool // the collector takes none
	noLogs   bool
	refused  map[string]bool // what the collector has refused some of
}

// Begin implements [Sink].
func (o *otel) Begin(_ context.Context, run Run) error {
	o.run, o.resource, o.refused = run, nil, map[string]bool{}
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

// Takes implements [Sink].
func (o *otel) Takes() Parts { return Parts{Spans: o.Spans && !o.noSpans, Logs: o.Logs && !o.noLogs} }

// Send implements [Sink]. A rollout is a trace, with its model calls and rewards below it; else a step of
// a role is one.
func (o *otel) Send(ctx context.Context, b Batch) error {
	var all [][]byte
	switch {
	case len(b.Records) > 0:
		return o.post(ctx, "metrics", gauges(b.Records))
	case len(b.Spans) > 0:
		for _, s := range b.Spans {
			all = append(all, o.span(b.Process, s))
		}
		return o.offer(ctx, "traces", "spans", all, &o.noSpans)
	}
	for _, l := range b.Logs {
		all = append(all, o.log(b.Process, l))
	}
	return o.sendLogs(ctx, all)
}

// gauges encodes metrics, sorted by name.
func gauges(records []trinity.Record) (all [][]byte) {
	points := map[string][]byte{} // encoded, by metric
	for _, r := range records {
		step := varint(nil, 3, r.Step)
		at := protobuf.AppendFixed64(nil, 3, uint64(r.Time.UnixNano()))
		for name, v := range r.Metrics {
			point := protobuf.AppendDouble(slices.Clone(at), 4, v)
			point = message(point, 7, attribute("role", message(nil, 1, []byte(r.Role))))
			points[name] = message(points[name], 1, message(point, 7, attribute("step", step)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(points)) {
		all = append(all, message(message(nil, 1, []byte(name)), 5, points[name]))
	}
	return all
}

// offer sends what a collector need not take. If it takes none, refused is set, and the metrics go on.
func (o *otel) offer(ctx context.Context, what, name string, all [][]byte, refused *bool) error {
	err := o.post(ctx, what, all)
	var status *retry.StatusError
	unknown := []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}
	switch {
	case !errors.As(err, &status):
		return err
	case slices.Contains(unknown, status.Code):
		o.say("%v: the collector gets no %s; %[2]s: false asks it for no more", err, name)
	case !retry.IsTemporary(err):
		o.say("%v: the collector gets no more %s; trinity sync sends what is missing", err, name)
	default:
		return err
	}
	*refused = true
	return nil
}

// Kinds of spans.
const (
	otelInternal = 1
	otelClient   = 3
)

// ids returns the ID of the trace of a rollout, or of a step of a role if rollout is "", and that of the
// rollout's own span. both tells them from those of others.
func (o *otel) ids(process int, role, rollout string, step int64) (group, own []byte, both string) {
	both = fmt.Sprintf("%s\n%d\n%s\n%s", o.run.ID, process, role, cmp.Or(rollout, strconv.FormatInt(step, 10)))
	sum := sha256.Sum256([]byte(both))
	return sum[:16], sum[16:24], both
}

// span encodes a span. Its ID follows from what it is, and so does that of the rollout above it, which
// ends later.
func (o *otel) span(process int, s trace.Span) []byte {
	group, own, of := o.ids(process, s.Role, s.ID, s.Step)
	var parent []byte
	if s.Kind != trinity.SpanRollout {
		if s.ID != "" {
			parent = own
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%d\n%d", of, s.Kind, s.Name, s.For, s.Begin, s.End))
		own = sum[:8]
	}
	name, kind := string(s.Kind), int64(otelInternal)
	attributes := [][2]string{{"trinity.role", s.Role}, {"trinity.name", s.Name}, {"trinity.rollout", s.ID}, {"trinity.for", s.For}}
	switch s.Kind {
	case trinity.SpanWait:
		name = strings.TrimSpace("wait for " + s.For)
	case trinity.SpanCall:
		const operation = "text_completion"
		model := modelName(fmt.Sprint(cmp.Or(o.run.Settings["model.model_path"], any(""))))
		name, kind = strings.TrimSpace(operation+" "+model), otelClient
		attributes = append(attributes, [2]string{"gen_ai.operation.name", operation}, [2]string{"gen_ai.provider.name", "trinity"},
			[2]string{"gen_ai.request.model", model}, [2]string{"gen_ai.conversation.id", s.ID})
	}
	b := message(message(nil, 1, group), 2, own)
	if parent != nil {
		b = message(b, 4, parent)
	}
	b = varint(message(b, 5, []byte(name)), 6, kind)
	b = protobuf.AppendFixed64(b, 7, uint64(s.Begin)*1000)
	b = protobuf.AppendFixed64(b, 8, uint64(s.End)*1000)
	b = addTexts(b, 9, attributes)
	b = message(b, 9, attribute("trinity.step", varint(nil, 3, s.Step)))
	return message(b, 9, attribute("trinity.version", varint(nil, 3, s.Version)))
}

// post sends encoded metrics or spans.
func (o *otel) post(ctx context.Context, what string, all [][]byte) error {
	scope := message(nil, 1, message(nil, 1, []byte("trinity")))
	for _, one := range all {
		scope = message(scope, 2, one)
	}
	r := retry.Request{
		Method: http.MethodPost, URL: strings.TrimRight(o.Endpoint, "/") + "/v1/" + what, Header: o.header,
		Body: message(nil, 1, message(message(nil, 1, o.resource), 2, scope)),
	}
	reply, err := client().Do(ctx, r)
	if err != nil {
		return err
	}
	refused, why, err := otelAnswer(reply)
	switch {
	case err != nil:
		return fmt.Errorf("%s: the answer is not OTLP: %w: %s", r, err, retry.OneLine(reply.Body))
	case refused > 0 && !o.refused[what]: // each line that the run says is a log record, which it may refuse too
		o.refused[what] = true
		o.say("the collector refuses %d of %d %s: %s", refused, len(all), what, retry.OneLine([]byte(why)))
	}
	return nil
}

// attribute is a key with an encoded value.
func attribute(key string, value []byte) []byte {
	return message(message(nil, 1, []byte(key)), 2, value)
}

// Tell implements [Sink]. OpenTelemetry knows no end of a run, so the end is a log record.
func (o *otel) Tell(ctx context.Context, status Status) error {
	if !o.Takes().Logs {
		return nil
	}
	return o.sendLogs(ctx, [][]byte{o.endLog(status)})
}

// Target implements [Sink].
func (o *otel) Target() string { return withoutSecrets(o.Endpoint) }

// Validate refuses an address that is none.
func (o *otel) Validate() error { return isAddress("endpoint", o.Endpoint) }
