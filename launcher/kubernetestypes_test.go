//go:build unix

package launcher

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
)

// The fields of Kubernetes' types (batch/v1, core/v1) that manifests may have, as the API server calls
// them: strict validation refuses all others.
type (
	kubeObject struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name            string            `json:"name"`
			Labels          map[string]string `json:"labels"`
			OwnerReferences []struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
				UID        string `json:"uid"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	kubeJob struct {
		kubeObject
		Spec struct {
			BackoffLimit            *int32 `json:"backoffLimit"`
			CompletionMode          string `json:"completionMode"`
			Completions             *int32 `json:"completions"`
			Parallelism             *int32 `json:"parallelism"`
			TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished"`
			Template                struct {
				Metadata struct {
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
				Spec kubePod `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	kubePod struct {
		Affinity struct {
			PodAntiAffinity struct {
				Required []struct {
					LabelSelector kubeSelector `json:"labelSelector"`
					TopologyKey   string       `json:"topologyKey"`
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `json:"podAntiAffinity"`
		} `json:"affinity"`
		AutomountServiceAccountToken  *bool             `json:"automountServiceAccountToken"`
		Containers                    []kubeContainer   `json:"containers"`
		NodeSelector                  map[string]string `json:"nodeSelector"`
		RestartPolicy                 string            `json:"restartPolicy"`
		ServiceAccountName            string            `json:"serviceAccountName"`
		Subdomain                     string            `json:"subdomain"`
		TerminationGracePeriodSeconds *int64            `json:"terminationGracePeriodSeconds"`
		Volumes                       []struct {
			Name      string `json:"name"`
			ConfigMap *struct {
				Name        string `json:"name"`
				DefaultMode *int32 `json:"defaultMode"`
				Items       []struct {
					Key  string `json:"key"`
					Path string `json:"path"`
				} `json:"items"`
			} `json:"configMap"`
			EmptyDir *struct {
				Medium string `json:"medium"`
			} `json:"emptyDir"`
			Claim *struct {
				ClaimName string `json:"claimName"`
			} `json:"persistentVolumeClaim"`
		} `json:"volumes"`
	}
	kubeContainer struct {
		Name    string   `json:"name"`
		Image   string   `json:"image"`
		Command []string `json:"command"`
		Env     []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"env"`
		EnvFrom []struct {
			SecretRef struct {
				Name string `json:"name"`
			} `json:"secretRef"`
		} `json:"envFrom"`
		Resources struct {
			Limits   map[string]string `json:"limits"`
			Requests map[string]string `json:"requests"`
		} `json:"resources"`
		VolumeMounts []struct {
			Name      string `json:"name"`
			MountPath string `json:"mountPath"`
		} `json:"volumeMounts"`
		WorkingDir string `json:"workingDir"`
	}
	kubeSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	kubeConfigMap struct {
		kubeObject
		Data       map[string]string `json:"data"`
		BinaryData map[string][]byte `json:"binaryData"`
	}
	kubeSecret struct {
		kubeObject
		StringData map[string]string `json:"stringData"`
	}
	kubeService struct {
		kubeObject
		Spec struct {
			ClusterIP                string            `json:"clusterIP"`
			PublishNotReadyAddresses bool              `json:"publishNotReadyAddresses"`
			Selector                 map[string]string `json:"selector"`
		} `json:"spec"`
	}
)

// Manifests have fields of Kubernetes only, and what they name is there.
func TestKubernetesTypes(t *testing.T) {
	k := cluster(t, fullArgs)
	for name, p := range map[string]pods{
		"group": k.group(podGroup), "one": k.group(trinity.ProcessGroup{Name: "server", Nodes: 1, Command: []string{"python3"}}),
		"driver": k.driver("run-1", trinity.ProcessGroup{Name: "run", Command: []string{"trinity", "run"}, Secret: podGroup.Secret}),
	} {
		t.Run(name, func(t *testing.T) {
			first, rest, err := k.manifests(p, "uid-1")
			if err != nil {
				t.Fatal(err)
			}
			text, err := asYAML(append([]manifest{first}, rest...))
			if err != nil {
				t.Fatal(err)
			}
			var job kubeJob
			var files kubeConfigMap
			var secret kubeSecret
			var service kubeService
			strictly(t, text, &job, &files, &secret, &service)
			pod, owner := job.Spec.Template.Spec, job.Metadata
			member := pod.Containers[0]
			if job.APIVersion != "batch/v1" || job.Kind != "Job" || owner.Name == "" || len(owner.OwnerReferences) > 0 {
				t.Errorf("the Job is %+v", job.kubeObject)
			}
			for _, x := range []kubeObject{files.kubeObject, secret.kubeObject, service.kubeObject} {
				if of := x.Metadata.OwnerReferences; x.APIVersion != "v1" || len(of) != 1 || of[0].Name != owner.Name || of[0].UID != "uid-1" ||
					of[0].Kind != "Job" || of[0].APIVersion != "batch/v1" || x.Metadata.Name != owner.Name {
					t.Errorf("%s is %+v", x.Kind, x)
				}
			}
			if member.EnvFrom[0].SecretRef.Name != secret.Metadata.Name || pod.Subdomain != service.Metadata.Name {
				t.Errorf("pods want %s and %s", member.EnvFrom[0].SecretRef.Name, pod.Subdomain)
			}
			for _, selector := range append([]map[string]string{service.Spec.Selector}, antiAffinity(pod)...) {
				for label, value := range selector {
					if job.Spec.Template.Metadata.Labels[label] != value {
						t.Errorf("no pod has the label %s=%s", label, value)
					}
				}
			}
			var volumes, mounts []string
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.Name)
				if v.ConfigMap == nil {
					continue
				}
				for _, item := range v.ConfigMap.Items {
					_, isText := files.Data[item.Key]
					if _, isBinary := files.BinaryData[item.Key]; isText == isBinary {
						t.Errorf("%s is not there once", item.Key)
					}
				}
			}
			for _, m := range member.VolumeMounts {
				mounts = append(mounts, m.Name)
			}
			if !slices.Equal(volumes, mounts) || !maps.Equal(member.Resources.Limits, member.Resources.Requests) {
				t.Errorf("volumes %v, mounts %v, resources %+v", volumes, mounts, member.Resources)
			}
		})
	}
}

func antiAffinity(pod kubePod) (selectors []map[string]string) {
	for _, term := range pod.Affinity.PodAntiAffinity.Required {
		selectors = append(selectors, term.LabelSelector.MatchLabels)
	}
	return selectors
}

// strictly decodes the documents of a stream, which may have no other fields.
func strictly(t *testing.T, text string, into ...any) {
	t.Helper()
	documents := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for _, x := range into {
		var document any
		if err := documents.Decode(&document); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(x); err != nil {
			t.Errorf("%v in %s", err, data)
		}
	}
	var more any
	if err := documents.Decode(&more); !errors.Is(err, io.EOF) {
		t.Errorf("there is also %v, %v", more, err)
	}
}
