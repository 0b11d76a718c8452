package launcher

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
)

// manifest is an object of Kubernetes.
type manifest = map[string]any

// pods are the pods of a group, or the pod of a driver.
type pods struct {
	trinity.ProcessGroup
	run, job string // names
	driver   bool
}

const (
	labelRun   = "trinity/run"
	labelGroup = "trinity/group" // the name of the Job
	filesDir   = "/trinity"      // where a pod has the files of its group
	mostFiles  = 1<<20 - 1<<14   // bytes, of which Kubernetes takes 1 MiB as an object
	mostName   = 59              // characters: a pod's host name is a label, and ends with its index
)

var jobName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// manifests returns the Job of a group, and the objects that its pods wait for. These belong to the
// Job with a uid: Kubernetes deletes them with it, also if the driver can no longer do it.
func (k *kubernetes) manifests(p pods, uid string) (job manifest, rest []manifest, err error) {
	switch {
	case len(p.job) > mostName || !jobName.MatchString(p.job):
		return nil, nil, fmt.Errorf("%q is no name of a Job: want at most %d lower-case letters, digits and '-'", p.job, mostName)
	case p.Beside != "" && p.GPUs > 0:
		return nil, nil, errors.New("a GPU belongs to one pod of Kubernetes: mode colocate needs another launcher")
	}
	files, items, err := configMapData(p.Files)
	if err != nil {
		return nil, nil, fmt.Errorf("the files of %s: %w", p.Name, err)
	}
	owned := p.metadata()
	if uid != "" {
		owned["ownerReferences"] = []any{manifest{"apiVersion": "batch/v1", "kind": "Job", "name": p.job, "uid": uid}}
	}
	files["apiVersion"], files["kind"], files["metadata"] = "v1", "ConfigMap", owned
	secret := manifest{"apiVersion": "v1", "kind": "Secret", "metadata": owned, "stringData": p.Secret}
	service := manifest{"apiVersion": "v1", "kind": "Service", "metadata": owned, "spec": manifest{
		"clusterIP": "None", "publishNotReadyAddresses": true, "selector": manifest{labelGroup: p.job},
	}}
	return k.jobManifest(p, items), []manifest{files, secret, service}, nil
}

// metadata names an object of the group.
func (p *pods) metadata() manifest {
	return manifest{"name": p.job, "labels": p.labels()}
}

func (p *pods) labels() manifest {
	return manifest{"app.kubernetes.io/managed-by": "trinity", labelRun: p.run, labelGroup: p.job}
}

// jobManifest returns the Job. Its pods are on nodes that differ, are never started again, and wait
// for their files and secrets.
func (k *kubernetes) jobManifest(p pods, items []any) manifest {
	nodes := max(1, p.Nodes)
	volumes := []any{manifest{"name": "group", "configMap": manifest{"name": p.job, "items": items, "defaultMode": 0o555}},
		manifest{"name": "shm", "emptyDir": manifest{"medium": "Memory"}}}
	mounts := []any{manifest{"name": "group", "mountPath": filesDir}, manifest{"name": "shm", "mountPath": "/dev/shm"}}
	for i, claim := range slices.Sorted(maps.Keys(k.Volumes)) {
		name := "volume" + strconv.Itoa(i)
		volumes = append(volumes, manifest{"name": name, "persistentVolumeClaim": manifest{"claimName": claim}})
		mounts = append(mounts, manifest{"name": name, "mountPath": k.Volumes[claim]})
	}
	spec := manifest{
		"restartPolicy": "Never", "subdomain": p.job, "automountServiceAccountToken": p.driver, "volumes": volumes,
		"containers": []any{manifest{
			"name": "member", "image": k.Image, "command": literal(p.Command...), "workingDir": filesDir, "volumeMounts": mounts,
			"env": variables(p.Env), "envFrom": []any{manifest{"secretRef": manifest{"name": p.job}}}, "resources": k.resources(p.GPUs),
		}},
	}
	if p.driver {
		spec["terminationGracePeriodSeconds"] = 120 // it may be writing a checkpoint
	}
	if k.Account != "" {
		spec["serviceAccountName"] = k.Account
	}
	if len(k.NodeSelector) > 0 {
		spec["nodeSelector"] = k.NodeSelector
	}
	if nodes > 1 {
		spec["affinity"] = manifest{"podAntiAffinity": manifest{"requiredDuringSchedulingIgnoredDuringExecution": []any{manifest{
			"topologyKey": "kubernetes.io/hostname", "labelSelector": manifest{"matchLabels": manifest{labelGroup: p.job}},
		}}}}
	}
	return manifest{"apiVersion": "batch/v1", "kind": "Job", "metadata": p.metadata(), "spec": manifest{
		"completions": nodes, "parallelism": nodes, "completionMode": "Indexed", "backoffLimit": 0, "ttlSecondsAfterFinished": k.Keep,
		"template": manifest{"metadata": manifest{"labels": p.labels()}, "spec": spec},
	}}
}

// resources returns what a pod reserves and may use.
func (k *kubernetes) resources(gpus int) manifest {
	all := manifest{}
	for name, amount := range k.Resources {
		all[name] = fmt.Sprint(amount)
	}
	if gpus > 0 {
		all[k.GPU] = strconv.Itoa(gpus)
	}
	return manifest{"requests": maps.Clone(all), "limits": all}
}

func variables(env map[string]string) []any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, manifest{"name": name, "value": literal(env[name])[0]})
	}
	return all
}

// literal returns words as Kubernetes leaves them: it takes $(NAME) for a variable, and $$ for $.
func literal(words ...string) (all []string) {
	for _, word := range words {
		all = append(all, strings.ReplaceAll(word, "$", "$$"))
	}
	return all
}

// configMapData returns files as the data of a ConfigMap, and where a volume has them: a key of a
// ConfigMap has no slashes.
func configMapData(files map[string][]byte) (m manifest, items []any, err error) {
	text, binary, size := manifest{}, manifest{}, 0
	items = []any{}
	for i, path := range slices.Sorted(maps.Keys(files)) {
		key, data := "file"+strconv.Itoa(i), files[path]
		items = append(items, manifest{"key": key, "path": path})
		if utf8.Valid(data) {
			text[key] = string(data)
			size += len(data)
			continue
		}
		coded := base64.StdEncoding.EncodeToString(data)
		binary[key] = coded
		size += len(coded)
	}
	if size > mostFiles {
		return nil, nil, fmt.Errorf("%d bytes, and a ConfigMap has at most %d: put large files into the image or a volume", size, mostFiles)
	}
	m = manifest{"data": text}
	if len(binary) > 0 {
		m["binaryData"] = binary
	}
	return m, items, nil
}

// preview writes objects for people.
func preview(job manifest, rest []manifest) (string, error) {
	hide(rest)
	text, err := asYAML(append([]manifest{job}, rest...))
	return "# A preview, not to be applied: *** stands for secrets and a size for each file. The run creates the objects itself.\n" + text, err
}

// hide puts stars in place of secrets, and sizes in place of files.
func hide(all []manifest) {
	for _, m := range all {
		if secrets, ok := m["stringData"].(map[string]string); ok {
			hidden := map[string]string{}
			for name := range secrets {
				hidden[name] = "***"
			}
			m["stringData"] = hidden
		}
		for _, part := range []string{"data", "binaryData"} {
			files, _ := m[part].(manifest)
			for key, text := range files {
				files[key] = fmt.Sprintf("… %d bytes", len(text.(string)))
			}
		}
	}
}

// asYAML returns objects as documents of one stream.
func asYAML(all []manifest) (string, error) {
	var b strings.Builder
	for _, m := range all {
		text, err := yaml.Marshal(m)
		if err != nil {
			return "", err
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String(), nil
}
