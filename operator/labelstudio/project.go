package labelstudio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/trinity-go/trinity/internal/retry"
)

// Project is a set of tasks with one annotation interface.
type Project struct {
	ID          int    `json:"id"`
	Title       string `json:"title"`
	Annotations int    `json:"total_annotations_number"` // of all tasks, including skipped ones
}

// Project returns the project with a number.
func (c *Client) Project(ctx context.Context, id int) (Project, error) {
	var p Project
	err := c.do(ctx, http.MethodGet, fmt.Sprintf("/api/projects/%d/", id), nil, &p)
	return p, err
}

// Page returns the address of a project's page.
func (c *Client) Page(p Project) string { return fmt.Sprintf("%s/projects/%d/data", c.url, p.ID) }

// FindProject returns the project with exactly this title; ok is false if there is none.
func (c *Client) FindProject(ctx context.Context, title string) (p Project, ok bool, err error) {
	for page := 1; ; page++ {
		var found struct {
			Next    string
			Results []Project
		}
		query := url.Values{"title": {title}, "page": {fmt.Sprint(page)}, "page_size": {"100"}}
		if err := c.do(ctx, http.MethodGet, "/api/projects/?"+query.Encode(), nil, &found); err != nil {
			return Project{}, false, err
		}
		for _, p := range found.Results {
			if p.Title == title {
				return p, true, nil
			}
		}
		if found.Next == "" {
			return Project{}, false, nil
		}
	}
}

// CreateProject creates a project. labelConfig is Label Studio's XML for the annotators' page.
func (c *Client) CreateProject(ctx context.Context, title, labelConfig string) (Project, error) {
	var p Project
	err := c.do(ctx, http.MethodPost, "/api/projects/", map[string]any{"title": title, "label_config": labelConfig}, &p)
	return p, err
}

// Task is one item to annotate.
type Task struct {
	ID          int            `json:"id"`
	Data        map[string]any `json:"data"`
	Annotations []Annotation   `json:"annotations"`
}

// Annotation is one annotator's answer on a task.
type Annotation struct {
	ID        int  `json:"id"`
	Cancelled bool `json:"was_cancelled"` // the annotator skipped the task
	Result    []Result
}

// Result is one part of an annotation.
type Result struct {
	Type  string `json:"type"`
	Value struct {
		Selected string `json:"selected"` // left or right, for the type pairwise
	} `json:"value"`
}

// Import adds tasks to a project, each with its data. After a temporary error ([retry.IsTemporary])
// the tasks may have been added or not.
func (c *Client) Import(ctx context.Context, project int, data []map[string]any) error {
	tasks := make([]map[string]any, len(data))
	for i, d := range data {
		tasks[i] = map[string]any{"data": d}
	}
	return c.do(ctx, http.MethodPost, fmt.Sprintf("/api/projects/%d/import", project), tasks, nil)
}

// tasksPerPage is the number of tasks in one request.
const tasksPerPage = 100

// Tasks lists the tasks of a project with their annotations. It stops after an error.
func (c *Client) Tasks(ctx context.Context, project int) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		seen := 0
		for page := 1; ; page++ {
			var found struct {
				Total int
				Tasks []Task
			}
			query := url.Values{"project": {fmt.Sprint(project)}, "page": {fmt.Sprint(page)},
				"page_size": {fmt.Sprint(tasksPerPage)}, "fields": {"all"}}
			if err := c.do(ctx, http.MethodGet, "/api/tasks/?"+query.Encode(), nil, &found); err != nil {
				yield(Task{}, err)
				return
			}
			for _, t := range found.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if seen += len(found.Tasks); seen >= found.Total {
				return
			}
			if len(found.Tasks) == 0 {
				yield(Task{}, retry.Temporary(errors.New("the project lost tasks while its pages were read")))
				return
			}
		}
	}
}
