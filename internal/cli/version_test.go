package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesTheCommit(t *testing.T) {
	const full, pseudo = "0123456789abcdef0123456789abcdef01234567", "v0.0.0-20260102030405-0123456789ab"
	stamp := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: full}, {Key: "vcs.modified", Value: modified}}
	}
	own := func(version string) debug.Module { return debug.Module{Path: module, Version: version} }
	replaced := own("v0.0.0-00010101000000-000000000000")
	replaced.Replace = &debug.Module{Path: "../trinity", Version: "(devel)"}
	tagged := own("v1.2.3")
	for _, c := range []struct {
		name, release, commit string
		info                  debug.BuildInfo
		want                  string
	}{
		{"without any information", "", "", debug.BuildInfo{}, "dev"},
		{"go build in a clone", "", "", debug.BuildInfo{Main: own(pseudo), Settings: stamp("false")}, "dev (0123456789ab)"},
		{"go build in a changed clone", "", "", debug.BuildInfo{Main: own(pseudo + "+dirty"), Settings: stamp("true")},
			"dev (0123456789ab, modified)"},
		{"go build of a tag", "", "", debug.BuildInfo{Main: tagged, Settings: stamp("false")}, "v1.2.3 (0123456789ab)"},
		{"a release", "v1.2.3", "", debug.BuildInfo{Main: own(pseudo), Settings: stamp("false")}, "v1.2.3 (0123456789ab)"},
		{"an image", "v1.2.3", full, debug.BuildInfo{Main: own("(devel)")}, "v1.2.3 (0123456789ab)"},
		{"an image without a version", "", full, debug.BuildInfo{Main: own("(devel)")}, "dev (0123456789ab)"},
		{"go install of a tag", "", "", debug.BuildInfo{Main: tagged}, "v1.2.3"},
		{"go install of a commit", "", "", debug.BuildInfo{Main: own(pseudo)}, pseudo},
		{"another module's program", "", "", debug.BuildInfo{Main: debug.Module{Path: "example.com/own", Version: "v9.0.0"},
			Deps: []*debug.Module{&tagged}, Settings: stamp("true")}, "v1.2.3"},
		{"another module's program with a clone", "", "", debug.BuildInfo{Main: debug.Module{Path: "example.com/own"},
			Deps: []*debug.Module{&replaced}, Settings: stamp("true")}, "dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			release, commit = c.release, c.commit
			t.Cleanup(func() { release, commit = "", "" })
			if got := origin(&c.info); got != c.want {
				t.Errorf("version %q, want %q", got, c.want)
			}
		})
	}
}
