package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release and commit are set by the linker where Go's build information lacks them: release in
// releases, commit in images, which are built without the repository's history.
var release, commit string

// module is the path of this module, which a program with plug-ins of its own has as a dependency.
const module = "github.com/trinity-go/trinity"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, platform and Go version",
		Args:  wantArgs(0),
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), version())
		},
	}
}

// version returns what the program is, from which commit, and for which system.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return fmt.Sprintf("trinity %s %s/%s %s", origin(info), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// origin returns the version of this module and, if it is known, the commit and whether files
// differed from it. In another module's program, build information has that module's commit, so
// only the version is known.
func origin(info *debug.BuildInfo) string {
	name, at, changed := info.Main.Version, commit, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			at = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", modified"
		}
	}
	for _, dep := range info.Deps {
		if dep.Path != module {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		name, at = dep.Version, ""
	}
	switch at = at[:min(len(at), 12)]; {
	case release != "":
		name = release
	case name == "" || name == "(devel)" || at != "" && strings.Contains(name, at): // the version that Go derives from the commit
		name = "dev"
	}
	if at == "" {
		return name
	}
	return fmt.Sprintf("%s (%s%s)", name, at, changed)
}
