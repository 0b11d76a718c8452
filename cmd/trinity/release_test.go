package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/trinitytest"
)

// limit is the most that the stripped binary may have, bytes. An image holds the certificates of
// authorities besides, of some 0.3 MB, and stays below 55.8 MB.
const limit = 55_500_000

// wheelLimit is the most that a wheel of the program may have, bytes.
const wheelLimit = 20_500_000

// root is the repository's root.
const root = "../.."

// build is an entry of builds in .goreleaser.yaml.
type build struct {
	Main    string   `yaml:"main"`
	Env     []string `yaml:"env"`
	Targets []string `yaml:"targets"`
	Flags   []string `yaml:"flags"`
	Tags    []string `yaml:"tags"`
	LDFlags string   `yaml:"ldflags"`
}

func releaseBuild(t *testing.T) build {
	t.Helper()
	var file struct {
		Builds []build `yaml:"builds"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".goreleaser.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Builds) != 1 {
		t.Fatalf(".goreleaser.yaml has %d builds, want 1", len(file.Builds))
	}
	return file.Builds[0]
}

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReleasesAreBuiltWithoutCgo(t *testing.T) {
	b := releaseBuild(t)
	if b.Main != "./cmd/trinity" || !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) {
		t.Errorf("a release builds %s with %v, want ./cmd/trinity with CGO_ENABLED=0", b.Main, b.Env)
	}
	if !slices.Equal(b.Flags, []string{"-trimpath", "-buildvcs=true"}) || !strings.HasPrefix(b.LDFlags, "-s -w -X ") {
		t.Errorf("a release is built with %v and %s, want no paths, the commit, and no symbols", b.Flags, b.LDFlags)
	}
	want := []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"}
	if !slices.Equal(b.Targets, want) {
		t.Errorf("a release is built for %v, want %v", b.Targets, want)
	}
	if tags := "-tags " + strings.Join(b.Tags, ",") + " "; !strings.Contains(read(t, "Dockerfile"), tags) {
		t.Errorf("the image is not built with the release's %s", tags)
	}
}

// The workflow of a release runs the tests and the two commands that docs/develop/README.md has, and every job has a limit.
func TestWorkflowRunsWhatIsDocumented(t *testing.T) {
	var file struct {
		Jobs map[string]struct {
			Needs   string `yaml:"needs"`
			Minutes int    `yaml:"timeout-minutes"`
			Steps   []struct {
				Run string `yaml:"run"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/release.yml")), &file); err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{}
	for name, job := range file.Jobs {
		if needs := job.Needs; job.Minutes == 0 || name != "test" && needs != "test" && file.Jobs[needs].Needs != "test" {
			t.Errorf("job %s has no limit, or does not need the job test", name)
		}
		for _, step := range job.Steps {
			runs[name] += step.Run + "\n"
		}
	}
	manual := read(t, "docs/develop/README.md")
	for job, command := range map[string]string{
		"test": "go test ", "archives": "bash .ci/release ", "site": "go run -C .ci/site . -docs ../../docs -out ../../dist/site\n",
	} {
		if !strings.Contains(runs[job], command) || !strings.Contains(manual, command) {
			t.Errorf("job %s runs %q, want %q, which docs/develop/README.md explains", job, runs[job], command)
		}
	}
}

// Wheels have digests in checksums.txt, and go to the index by a trusted publisher: without a token, and for a tag alone.
func TestWheelsArePublishedWithoutToken(t *testing.T) {
	var release struct {
		Checksum, Release struct {
			Files []map[string]string `yaml:"extra_files"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]map[string]string{release.Checksum.Files, release.Release.Files} {
		if len(files) != 1 || files[0]["glob"] != "dist/*.whl" {
			t.Errorf("a release has the files %v besides, want the wheels", files)
		}
	}
	var file struct {
		Jobs map[string]struct {
			Permissions, Environment map[string]string
			Steps                    []struct {
				Uses, If, Run string
				With          map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/release.yml")), &file); err != nil {
		t.Fatal(err)
	}
	job := file.Jobs["wheels"]
	if len(job.Permissions) != 1 || job.Permissions["id-token"] != "write" || job.Environment["name"] == "" {
		t.Errorf("the job has the permissions %v and the environment %v", job.Permissions, job.Environment)
	}
	last := job.Steps[len(job.Steps)-1]
	if !strings.HasPrefix(last.Uses, "pypa/gh-action-pypi-publish@") || last.If != "github.ref_type == 'tag'" {
		t.Errorf("the last step uses %s if %s", last.Uses, last.If)
	}
	for _, step := range job.Steps {
		if text := fmt.Sprint(step); strings.Contains(text, "secrets.") || strings.Contains(text, "password") {
			t.Errorf("a step has a secret: %s", text)
		}
	}
}

// The linker does not report a variable that does not exist.
func TestLinkerSetsVariablesThatExist(t *testing.T) {
	for file, want := range map[string]int{".goreleaser.yaml": 1, "Dockerfile": 2} {
		set := regexp.MustCompile(`-X (\S+)/internal/cli\.(\w+)=`).FindAllStringSubmatch(read(t, file), -1)
		if len(set) != want {
			t.Errorf("%s sets %d variables, want %d", file, len(set), want)
		}
		for _, m := range set {
			if m[1] != "github.com/trinity-go/trinity" && m[1] != "$MODULE" {
				t.Errorf("%s sets a variable of the module %s", file, m[1])
			}
			if !slices.Contains(variables(t), m[2]) {
				t.Errorf("%s sets %s, which internal/cli lacks", file, m[2])
			}
		}
	}
}

// variables returns the variables of package cli that have the type string and no initial value.
func variables(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "internal/cli/version.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "string" && len(v.Values) == 0 {
				for _, name := range v.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// An image is the binary and certificates, and its program is not root.
func TestImageHoldsOnlyTheProgram(t *testing.T) {
	file := read(t, "Dockerfile")
	builder := regexp.MustCompile(`(?m)^FROM --platform=\$BUILDPLATFORM golang:(\S+) AS build$`).FindStringSubmatch(file)
	if builder == nil || !regexp.MustCompile(`(?m)^go `+regexp.QuoteMeta(builder[1])+`\b`).MatchString(read(t, "go.mod")) {
		t.Errorf("the image is built by Go %q, want the version in go.mod", builder)
	}
	_, last, _ := strings.Cut(file, "\nFROM scratch\n")
	want := `COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /image /
ENV HOME=/home
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trinity"]
`
	if last != want {
		t.Errorf("the image is made by\n%swant\n%s", last, want)
	}
}

// A release's binary names its version and its commit, a binary of a changed clone says that it was
// changed, and the release's binary is small.
func TestBinariesNameTheirCommit(t *testing.T) {
	trinitytest.Long(t, "links the program twice", "cmd", "command")
	dir, commit := clone(t)
	b := releaseBuild(t)
	program := func(modified string, args ...string) (path, version string) {
		path = filepath.Join(t.TempDir(), "trinity.exe")
		run(t, dir, "go", slices.Concat([]string{"build", "-o", path}, args, []string{b.Main})...)
		version = strings.TrimSpace(run(t, dir, path, "version"))
		if want := fmt.Sprintf("(%.12s%s) ", commit, modified); !strings.Contains(version, want) {
			t.Errorf("the version is %q, want %q in it", version, want)
		}
		return path, version
	}
	linker := "-ldflags=" + strings.ReplaceAll(b.LDFlags, "{{ .Version }}", "1.2.3")
	path, version := program("", append(b.Flags, "-tags="+strings.Join(b.Tags, ","), linker)...)
	if !strings.HasPrefix(version, "trinity v1.2.3 ") {
		t.Errorf("the version is %q, want v1.2.3", version)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if t.Log(info.Size(), "bytes"); info.Size() > limit {
		t.Errorf("the stripped binary has %d bytes, want at most %d", info.Size(), limit)
	}
	wheel := strings.TrimSpace(run(t, dir, path, "wheel", "--platform", runtime.GOOS+"_"+runtime.GOARCH, "--output", t.TempDir()))
	if info, err := os.Stat(wheel); err != nil || info.Size() > wheelLimit || !strings.Contains(wheel, "+"+commit[:12]+"-py3-none-") {
		t.Errorf("%s: %v, want the commit in its name and at most %d bytes, %+v", wheel, err, wheelLimit, info)
	}
	if err := os.WriteFile(filepath.Join(dir, "doc.go"), []byte("// Package trinity is changed.\npackage trinity\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, version := program(", modified", "-trimpath", "-buildvcs=true"); !strings.HasPrefix(version, "trinity dev ") {
		t.Errorf("the version is %q, want dev", version)
	}
}

// clone commits the working tree's files to a new repository.
func clone(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for _, path := range strings.Split(run(t, root, "git", "ls-files", "-coz", "--exclude-standard"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil { // removed, and not committed yet
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", "-A")
	run(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "--no-gpg-sign", "-m", "all")
	return dir, strings.TrimSpace(run(t, dir, "git", "rev-parse", "HEAD"))
}

// run runs a program to its end and returns its output.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
