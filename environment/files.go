package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("files",
		"The policy works on a folder of text files with the tools list_files, read_file, write_file, edit_file and delete_file. The folder "+
			"is the episode's own and in memory: it begins with the row's column files, an object of paths and texts, and no path leads out "+
			"of it. A reply without a call ends the episode. The row's column expected is an object of paths and texts, with null for a file "+
			"that must not be there. Reward: 1 if every expected file is as expected, else 0, or with partial their share; without the column "+
			"that of the task's reward function, or 1 if the last line of the reply is the reference answer, else 0. Words of the first "+
			"message: {question}, {files} (the paths). Metrics: success; files, their number at the end.",
		func() trinity.EnvironmentOpener {
			return &fileFolder{MaxSteps: 20, MaxFiles: 1000, MaxFile: 100_000, MaxTotal: 2_000_000, MaxAnswer: 8000, Ask: "{question}"}
		})
}

// fileFolder is a folder of text files.
type fileFolder struct {
	MaxSteps  int    `yaml:"max_steps" range:"[1,)" doc:"replies at most; the last one ends the episode"`
	MaxFiles  int    `yaml:"max_files" range:"[1,)" doc:"files that the folder may have"`
	MaxFile   int    `yaml:"max_file" range:"[1,)" doc:"bytes that a file may have"`
	MaxTotal  int    `yaml:"max_total" range:"[1,)" doc:"bytes that all files may have"`
	MaxAnswer int    `yaml:"max_answer" range:"[100,)" doc:"bytes of a tool's answer that the policy reads"`
	Partial   bool   `yaml:"partial" doc:"give the share of the expected files, and not 0, for some of them"`
	Ask       string `yaml:"ask" doc:"first message to the policy"`
}

// Requires implements [trinity.Requirer].
func (f *fileFolder) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: checkBy(f.begin)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (f *fileFolder) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return f.begin(t)
}

// begin reads a row.
func (f *fileFolder) begin(t *trinity.Task) (*editing, error) {
	e := &editing{args: f, task: t}
	if err := columns(t, map[string]any{"files": &e.given, "expected": &e.expected}); err != nil {
		return nil, err
	}
	if err := checkQuestion(t); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name, text := range e.expected {
		if text != nil {
			texts[name] = *text
		} else if err := checkPath(name); err != nil {
			return nil, fmt.Errorf("column \"expected\": %w", err)
		}
	}
	if err := e.fill(texts); err != nil { // nobody could earn the reward
		return nil, fmt.Errorf("column \"expected\": %w", err)
	}
	if err := e.fill(e.given); err != nil {
		return nil, fmt.Errorf("column \"files\": %w", err)
	}
	return e, nil
}

// editing is one episode.
type editing struct {
	inMemory
	args     *fileFolder
	task     *trinity.Task
	given    map[string]string
	expected map[string]*string // nil for a file that must not be there
	files    map[string]string
	folders  map[string]int // files below each folder
	total    int            // bytes of files
	replies  int
}

// fill begins anew with a folder of these files.
func (e *editing) fill(files map[string]string) error {
	e.files, e.folders, e.total, e.replies = map[string]string{}, map[string]int{}, 0, 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := e.put(name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// count adds files to the folders that have a path.
func (e *editing) count(name string, files int) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		e.folders[dir] += files
	}
}

// checkPath returns an error unless a file can have the path.
func checkPath(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\\") {
		return fmt.Errorf("%q is no path below the folder: want one such as notes/a.txt, without .. or a / in front", name)
	}
	return nil
}

// put writes a file.
func (e *editing) put(name, text string) error {
	old, there := e.files[name]
	total := e.total - len(old) + len(text)
	if err := checkPath(name); err != nil {
		return err
	}
	switch {
	case len(text) > e.args.MaxFile:
		return fmt.Errorf("%s would have %d bytes, more than the %d that a file may have", name, len(text), e.args.MaxFile)
	case total > e.args.MaxTotal:
		return fmt.Errorf("all files would have %d bytes, more than the %d that they may have", total, e.args.MaxTotal)
	case !there && len(e.files) == e.args.MaxFiles:
		return fmt.Errorf("the folder has %d files, and may have no more", e.args.MaxFiles)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s would be no UTF-8 text", name)
	case e.folders[name] > 0:
		return fmt.Errorf("%s cannot be a file, because it is a folder", name)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, isFile := e.files[dir]; isFile {
			return fmt.Errorf("%s cannot be a file, because %s is one", name, dir)
		}
	}
	if !there {
		e.count(name, 1)
	}
	e.files[name], e.total = text, total
	return nil
}

// Reset implements [trinity.Environment].
func (e *editing) Reset(context.Context, uint64) (o trinity.Observation, err error) {
	if err := e.fill(e.given); err != nil {
		return o, err
	}
	if o.Messages, err = e.task.Messages(""); err != nil {
		return o, err
	}
	last := &o.Messages[len(o.Messages)-1]
	last.Content = strings.NewReplacer("{question}", last.Content, "{files}", e.paths("")).Replace(e.args.Ask)
	one := textParameter("path below the folder, such as notes/a.txt")
	o.Tools, err = schemas(
		tool{name: "list_files", description: "Lists the files with their sizes in bytes.",
			parameters: map[string]any{"folder": textParameter("list the files below this folder alone")}},
		tool{name: "read_file", description: "Reads a file.", required: []string{"path"}, parameters: map[string]any{"path": one,
			"first_line": map[string]any{"type": "integer", "description": "line to begin with; 1 is the first"}}},
		tool{name: "write_file", description: "Writes a whole file.", required: []string{"path", "content"},
			parameters: map[string]any{"path": one, "content": textParameter("all of the file's text")}},
		tool{name: "edit_file", description: "Replaces a text that occurs once in a file.", required: []string{"path", "old", "new"},
			parameters: map[string]any{"path": one, "old": textParameter("the text to replace"), "new": textParameter("the text in its place")}},
		tool{name: "delete_file", description: "Deletes a file.", required: []string{"path"}, parameters: map[string]any{"path": one}})
	o.State = e.state()
	return o, err
}

// state returns a text that equal folders share.
func (e *editing) state() string {
	all, _ := json.Marshal(e.files) // sorts the names
	return string(all)
}

// paths returns the paths below a folder with their sizes, a line each.
func (e *editing) paths(folder string) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		if folder == "" || folder == "." || strings.HasPrefix(name, path.Clean(folder)+"/") {
			lines = append(lines, fmt.Sprintf("%s (%d)", name, len(e.files[name])))
		}
	}
	if len(lines) == 0 {
		return "(no files)"
	}
	return strings.Join(lines, "\n")
}

// Step implements [trinity.Environment].
func (e *editing) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	e.replies++
	for _, call := range a.Calls {
		said, wrong := e.call(call)
		if len(said) > e.args.MaxAnswer {
			said = strings.ToValidUTF8(said[:e.args.MaxAnswer], "") + "\n… more is left out"
		}
		out.ToolError = out.ToolError || wrong != nil
		out.Messages = append(out.Messages, answerOf(call, said, wrong))
	}
	out.State = e.state()
	if out.Done = len(a.Calls) == 0 || e.replies == e.args.MaxSteps; out.Done {
		e.score(&out, a.Text)
	}
	return out, nil
}

// score gives the reward of the folder as it is.
func (e *editing) score(out *trinity.Outcome, reply string) {
	out.Metrics = map[string]float64{"files": float64(len(e.files))}
	if len(e.expected) == 0 {
		out.Reward = rightAnswer(e.task, reply)
		return
	}
	right := 0
	for name, want := range e.expected {
		got, there := e.files[name]
		if there == (want != nil) && (want == nil || got == *want) {
			right++
		}
	}
	success, share := asNumber(right == len(e.expected)), float64(right)/float64(len(e.expected))
	out.Metrics["success"] = success
	if out.Reward = &success; e.args.Partial {
		out.Reward = &share
	}
}

// fileTools are the tools by name.
var fileTools = map[string]func(*editing, *fileArguments) (string, error){
	"list_files":  (*editing).list,
	"read_file":   (*editing).read,
	"write_file":  (*editing).write,
	"edit_file":   (*editing).edit,
	"delete_file": (*editing).remove,
}

// fileArguments are the arguments of all tools.
type fileArguments struct {
	Path, Content, Old, New *string
	Folder                  string
	FirstLine               int `json:"first_line"`
}

// call does what a call asks for.
func (e *editing) call(c trinity.ToolCall) (string, error) {
	do, ok := fileTools[c.Name]
	if !ok {
		return "", noTool(c.Name, fileTools)
	}
	var args fileArguments
	decoder := json.NewDecoder(bytes.NewReader(c.Arguments))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&args); err != nil {
		return "", fmt.Errorf("the arguments of %s: %s", c.Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	if c.Name != "list_files" && args.Path == nil {
		return "", errors.New(`want the argument "path", a text`)
	}
	return do(e, &args)
}

func (e *editing) list(args *fileArguments) (string, error) { return e.paths(args.Folder), nil }

// old returns the file that a call names.
func (e *editing) old(args *fileArguments) (string, error) {
	text, ok := e.files[*args.Path]
	if !ok {
		return "", fmt.Errorf("there is no file %q", *args.Path)
	}
	return text, nil
}

func (e *editing) read(args *fileArguments) (string, error) {
	text, err := e.old(args)
	lines := strings.SplitAfter(text, "\n")
	first := max(args.FirstLine, 1)
	switch {
	case err != nil:
		return "", err
	case first > len(lines):
		return "", fmt.Errorf("%s has %d lines", *args.Path, len(lines))
	}
	text = strings.Join(lines[first-1:], "")
	if len(text) <= e.args.MaxAnswer {
		return text, nil
	}
	shown := strings.ToValidUTF8(text[:e.args.MaxAnswer-60], "")
	next := first + strings.Count(shown, "\n")
	if next == first {
		return shown + "\n… the rest of line " + strconv.Itoa(first) + " is left out", nil
	}
	return shown + "\n… more follows; first_line " + strconv.Itoa(next) + " is the line cut here", nil
}

func (e *editing) write(args *fileArguments) (string, error) {
	if args.Content == nil {
		return "", errors.New(`want the argument "content", a text`)
	}
	if err := e.put(*args.Path, *args.Content); err != nil {
		return "", err
	}
	return "written", nil
}

func (e *editing) edit(args *fileArguments) (string, error) {
	if args.Old == nil || args.New == nil || *args.Old == "" {
		return "", errors.New(`want the arguments "old" and "new", two texts`)
	}
	text, err := e.old(args)
	if err != nil {
		return "", err
	}
	if n := strings.Count(text, *args.Old); n != 1 {
		return "", fmt.Errorf("the text to replace occurs %d times in %s, and must occur once", n, *args.Path)
	}
	if err := e.put(*args.Path, strings.Replace(text, *args.Old, *args.New, 1)); err != nil {
		return "", err
	}
	return "edited", nil
}

func (e *editing) remove(args *fileArguments) (string, error) {
	text, err := e.old(args)
	if err != nil {
		return "", err
	}
	delete(e.files, *args.Path)
	e.count(*args.Path, -1)
	e.total -= len(text)
	return "deleted", nil
}
