package run

import (
	"strings"

	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/model/hub"
)

// isHubDataset reports whether the name of a dataset that is not on this machine may be a name of
// the hub. A name that looks like a file is not.
func isHubDataset(name string) bool {
	return hub.IsName(datasetName(name)) && (strings.Contains(name, "://") || !dataset.IsFile(name))
}

// datasetName returns the hub's name of a dataset that a configuration writes as org/name.
func datasetName(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return "hf://datasets/" + name
}
