package monitor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// wandbRows are rows for the server, and the newest values of the run.
type wandbRows struct {
	Files struct {
		History wandbLines `json:"wandb-history.jsonl"`
		Summary wandbLines `json:"wandb-summary.json"`
	} `json:"files"`
	Uploaded []string `json:"uploaded,omitempty"` // files that the server has since
}

// wandbLines are lines of a file there, from the line with the number Offset on.
type wandbLines struct {
	Offset  int64    `json:"offset"`
	Content []string `json:"content"`
}

// sendRows sends rows from the one with the number first on.
func (w *wandb) sendRows(ctx context.Context, first int64, lines, uploaded []string) error {
	if err := w.reach(ctx); err != nil {
		return err
	}
	in := wandbRows{Uploaded: uploaded}
	newest := wandbRow{names: slices.Sorted(maps.Keys(w.summary)), values: w.summary}
	in.Files.History = wandbLines{first, lines}
	in.Files.Summary = wandbLines{0, []string{newest.json()}}
	return w.post(ctx, w.stream, in, nil)
}

// reach creates the run at the server, or changes it if there are new metrics.
func (w *wandb) reach(ctx context.Context) error {
	switch {
	case w.barred != nil:
		return w.barred
	case w.stream == "" || len(w.metrics) > w.told:
		return w.upsert(ctx)
	}
	return nil
}

// wandbUpsert creates a run, or changes the one with the same name.
const wandbUpsert = `mutation UpsertBucket($name: String, $project: String, $entity: String, $groupName: String, $displayName: String,
$config: JSONString) { upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, groupName: $groupName,
displayName: $displayName, config: $config}) { bucket { name project { name entity { name } } } inserted } }`

// upsert creates the run at the server, or changes its configuration.
func (w *wandb) upsert(ctx context.Context) error {
	config := map[string]any{"_wandb": map[string]any{"value": map[string]any{"m": w.axes()}}}
	for key, v := range w.run.Settings {
		config[key] = map[string]any{"value": v}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var out struct {
		UpsertBucket struct {
			Bucket struct {
				Project struct {
					Name   string
					Entity struct{ Name string }
				}
			}
		}
	}
	err = w.graphql(ctx, "UpsertBucket", wandbUpsert, map[string]any{
		"name": w.run.ID, "project": w.run.Project, "entity": orNull(w.entity()), "groupName": orNull(w.run.Group),
		"displayName": w.run.Name, "config": string(text),
	}, &out)
	if err != nil {
		return err
	}
	project := out.UpsertBucket.Bucket.Project
	if project.Name == "" || project.Entity.Name == "" {
		return fmt.Errorf("%s: the answer names no project of the run", w.BaseURL)
	}
	w.told, w.project = len(w.metrics), [2]string{project.Entity.Name, project.Name}
	w.stream = "/files/" + url.PathEscape(project.Entity.Name) + "/" + url.PathEscape(project.Name) + "/" + w.run.ID + "/file_stream"
	return nil
}

// wandbUpload asks where files of a run go.
const wandbUpload = `mutation CreateRunFiles($entity: String!, $project: String!, $run: String!, $files: [String!]!) {
createRunFiles(input: {entityName: $entity, projectName: $project, runName: $run, files: $files}) {
uploadHeaders files { name uploadUrl } } }`

// wandbUploads are the variables of wandbUpload.
type wandbUploads struct {
	Entity  string   `json:"entity"`
	Project string   `json:"project"`
	Run     string   `json:"run"`
	Files   []string `json:"files"`
}

// upload sends a file of the offline run to where the server wants it.
func (w *wandb) upload(ctx context.Context, path string, content []byte) error {
	if err := w.reach(ctx); err != nil {
		return err
	}
	var out struct {
		CreateRunFiles struct {
			UploadHeaders []string
			Files         []struct{ Name, UploadURL string }
		}
	}
	err := w.graphql(ctx, "CreateRunFiles", wandbUpload, wandbUploads{w.project[0], w.project[1], w.run.ID, []string{path}}, &out)
	if err != nil {
		return err
	}
	files := out.CreateRunFiles.Files
	if len(files) != 1 || files[0].UploadURL == "" {
		return fmt.Errorf("%s: the answer does not say where %s goes", w.BaseURL, path)
	}
	header := http.Header{}
	for _, line := range out.CreateRunFiles.UploadHeaders {
		name, text, _ := strings.Cut(line, ":")
		header.Set(name, text)
	}
	_, err = client().Do(ctx, retry.Request{Method: http.MethodPut, URL: files[0].UploadURL, Header: header, Body: content})
	return err
}

// graphql asks the server, and decodes the data of its answer.
func (w *wandb) graphql(ctx context.Context, name, query string, variables, data any) error {
	var out struct {
		Errors []struct{ Message string }
		Data   json.RawMessage
	}
	err := w.post(ctx, "/graphql", map[string]any{"operationName": name, "query": query, "variables": variables}, &out)
	switch {
	case err != nil:
		return err
	case len(out.Errors) > 0:
		return fmt.Errorf("%s: %s", w.BaseURL, out.Errors[0].Message)
	case len(out.Data) == 0:
		return nil
	}
	if err := json.Unmarshal(out.Data, data); err != nil {
		return fmt.Errorf("%s: %s: %w", w.BaseURL, name, err)
	}
	return nil
}

// wandbBeat is how often W&B wants to hear of a run; after some minutes it takes the run for dead.
var wandbBeat = 30 * time.Second

// axes tells W&B, by numbers in place of names, that every metric (1) is drawn over the first of the
// list (5).
func (w *wandb) axes() []map[string]any {
	axes := []map[string]any{{"1": wandbStep, "6": []int{}, "7": []int{}}}
	for _, name := range w.metrics {
		axes = append(axes, map[string]any{"1": name, "5": 1, "6": []int{}, "7": []int{}})
	}
	return axes
}

func (w *wandb) post(ctx context.Context, path string, in, out any) error {
	c := client()
	c.MayPass = func(code int) bool { return !slices.Contains([]int{400, 401, 403, 404, 409, 410}, code) }
	return c.JSON(ctx, retry.Request{
		Method: http.MethodPost, URL: strings.TrimRight(w.BaseURL, "/") + path,
		Header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("api:"+w.key()))}},
	}, in, out)
}

func (w *wandb) key() string    { return cmp.Or(w.APIKey, os.Getenv("WANDB_API_KEY")) }
func (w *wandb) entity() string { return cmp.Or(w.Entity, os.Getenv("WANDB_ENTITY")) }

// Target implements [Sink].
func (w *wandb) Target() string {
	if w.isOffline() {
		return ""
	}
	return withoutSecrets(w.BaseURL)
}

// isOffline reports whether a server gets nothing.
func (w *wandb) isOffline() bool {
	return w.key() == "" || slices.Contains([]string{"offline", "disabled", "dryrun"}, os.Getenv("WANDB_MODE"))
}

// Validate refuses an address that is none.
func (w *wandb) Validate() error { return isAddress("base_url", w.BaseURL) }

// orNull is a text of GraphQL that may be missing.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
