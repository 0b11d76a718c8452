package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// harborTask is a task folder of Harbor.
type harborTask struct {
	instruction string
	start       []byte // files of the work folder at the beginning, as a tar archive
	tests       []byte // files of tests, as a tar archive
	settings    harborSettings
}

// harborSettings are the parts of task.toml that mean something here.
type harborSettings struct {
	Environment harborBox `toml:"environment"`
	Verifier    struct {
		TimeoutSec  float64           `toml:"timeout_sec"`
		Env         map[string]string `toml:"env"`
		Environment harborBox         `toml:"environment"`
		Collect     []any             `toml:"collect"`
	} `toml:"verifier"`
	Steps []any `toml:"steps"`
}

// harborBox is what a task says of a container.
type harborBox struct {
	DockerImage string            `toml:"docker_image"`
	OS          string            `toml:"os"`
	Workdir     string            `toml:"workdir"`
	MemoryMB    int               `toml:"memory_mb"`
	GPUs        int               `toml:"gpus"`
	TPU         any               `toml:"tpu"`
	Env         map[string]string `toml:"env"`
	Healthcheck any               `toml:"healthcheck"`
	MCPServers  []any             `toml:"mcp_servers"`
}

// imageFiles ask for a container, in the folders environment and tests of a task.
var imageFiles = []string{"Dockerfile", "docker-compose.yaml", "docker-compose.yml"}

// readHarborTask reads a task folder. Without ignoreImage it is an error if the task asks for an
// image. most bounds the bytes of its files.
func readHarborTask(dir string, ignoreImage bool, most int) (t *harborTask, err error) {
	t = &harborTask{}
	text, err := os.ReadFile(filepath.Join(dir, "instruction.md"))
	if err != nil {
		return nil, err
	}
	t.instruction = strings.TrimSpace(string(text))
	if _, err := toml.DecodeFile(filepath.Join(dir, "task.toml"), &t.settings); err != nil {
		return nil, err
	}
	if err := t.settings.check(); err != nil {
		return nil, fmt.Errorf("task.toml: %w", err)
	}
	if asks := asksForImage(dir, &t.settings); asks != "" && !ignoreImage {
		return nil, fmt.Errorf("%s asks for an image, and the sandbox has none: set ignore_image: true if the programs of this machine do, "+
			"or run one of Harbor's own agents in its container, with the exec workflow", asks)
	}
	if t.start, err = archiveOf(filepath.Join(dir, "environment"), most, append(imageFiles, ".dockerignore")...); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "tests", "test.sh")); err != nil {
		return nil, fmt.Errorf("a task is verified by tests/test.sh: %w", err)
	}
	t.tests, err = archiveOf(filepath.Join(dir, "tests"), most, imageFiles...)
	return t, err
}

// check returns an error about what the sandbox cannot give.
func (s *harborSettings) check() error {
	for _, unable := range []struct {
		is   bool
		what string
	}{
		{len(s.Steps) > 0, "steps"},
		{len(s.Verifier.Collect) > 0, "verifier.collect"},
		{s.Environment.OS != "" && !strings.EqualFold(s.Environment.OS, "linux"), "environment.os " + s.Environment.OS},
		{s.Environment.GPUs > 0, "environment.gpus"},
		{s.Environment.TPU != nil, "environment.tpu"},
		{s.Environment.Healthcheck != nil, "environment.healthcheck"},
		{len(s.Environment.MCPServers) > 0, "environment.mcp_servers"},
	} {
		if unable.is {
			return fmt.Errorf("the sandbox cannot do %s", unable.what)
		}
	}
	if s.Verifier.TimeoutSec < 0 || s.Verifier.TimeoutSec > 24*3600 || s.Environment.MemoryMB < 0 || s.Environment.MemoryMB > 1<<20 {
		return errors.New("verifier.timeout_sec or environment.memory_mb is out of range")
	}
	return nil
}

// asksForImage returns what in a task asks for an image, or "".
func asksForImage(dir string, s *harborSettings) string {
	if s.Environment.DockerImage != "" {
		return "environment.docker_image of task.toml"
	}
	if s.Verifier.Environment.DockerImage != "" {
		return "verifier.environment.docker_image of task.toml"
	}
	for _, folder := range []string{"environment", "tests"} {
		for _, name := range imageFiles {
			if _, err := os.Lstat(filepath.Join(dir, folder, name)); err == nil {
				return folder + "/" + name
			}
		}
	}
	return ""
}

// archiveOf returns the files of a folder as a tar archive, which is the same for equal files. A
// folder that is not there has none. without are names of files that it leaves out.
func archiveOf(dir string, most int, without ...string) ([]byte, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == "." && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return err
		case name == "." || slices.Contains(without, name):
			return nil
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", path.Join(filepath.Base(dir), name))
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if int64(data.Len())+info.Size() > int64(most) {
			return fmt.Errorf("the files of %s have more than max_disk_mb", filepath.Base(dir))
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm() | 0o600)}
		if d.IsDir() {
			header.Typeflag, header.Name, header.Size, header.Mode = tar.TypeDir, name+"/", 0, 0o755
			return w.WriteHeader(header)
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	return data.Bytes(), err
}

// environmentTemplate is a value that stands for a variable: ${NAME}, or ${NAME:-else}.
var environmentTemplate = regexp.MustCompile(`^\$\{([^}:]+)(:-(.*))?\}$`)

// variables returns the variables of a task, as NAME=value. A task reads only those variables of this
// process that allowed names.
func variables(env map[string]string, allowed []string) (all []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if m := environmentTemplate.FindStringSubmatch(value); m != nil {
			own, there := os.LookupEnv(m[1])
			switch {
			case slices.Contains(allowed, m[1]) && there:
				value = own
			case m[2] != "":
				value = m[3]
			default:
				return nil, fmt.Errorf("task.toml: the variable %s wants this process's %s: set it, and list its name in pass_env", name, m[1])
			}
		}
		all = append(all, name+"="+value)
	}
	return all, nil
}
