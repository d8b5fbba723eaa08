package hollow

import (
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
)

// Label is on all objects that a run makes. Its value is the run's name.
const Label = "millrace.io/hollow"

// Annotations of pods that say how a hollow node runs them.
const (
	// RunForAnnotation is the time until the containers complete, such as 30s.
	RunForAnnotation = "hollow.millrace.io/run-for"
	// StartAfterAnnotation is the time that the containers take to start, such as 1s.
	StartAfterAnnotation = "hollow.millrace.io/start-after"
)

// Values of Config.Start.
const (
	StartPaced = "paced"
	StartStorm = "storm"
)

// Config says what to run. Its JSON is part of the report.
type Config struct {
	// Name is part of the nodes' names, and the label's value. Two runs at the same time
	// need two names.
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// Agents are the names of profiles.
	Agents []string `json:"agents"`
	// Profiles is a directory with the user's own profiles. It may be empty.
	Profiles  string `json:"profiles,omitempty"`
	KubeProxy bool   `json:"kubeProxy"`

	// Pods is the number of pods that the run makes for each node, in Namespace.
	Pods      int    `json:"pods"`
	Namespace string `json:"namespace"`
	// PodStart is the time that containers take to start. JobDuration is the time until
	// containers complete, in pods that do not restart them always. Annotations of a pod take
	// precedence.
	PodStart    time.Duration `json:"podStartNanos"`
	JobDuration time.Duration `json:"jobDurationNanos"`

	// Start is StartPaced or StartStorm. StartRate is the number of nodes that a paced run
	// starts in a second.
	Start     string  `json:"start"`
	StartRate float64 `json:"startRate"`
	// Duration is the time from the start to the end of the run. 0: it ends with the context.
	Duration time.Duration `json:"durationNanos"`
	Seed     uint64        `json:"seed"`

	// ConnectionsPerNode is the number of connections that the programs of a node share. It may
	// be less than one. 0: each program has its own.
	ConnectionsPerNode float64 `json:"connectionsPerNode"`
	// Impersonate sends each program's requests as its own user.
	Impersonate bool `json:"impersonate"`
	// ServiceAccountRights gives impersonated service accounts only the rights that the server
	// has bound to them. Otherwise they also have the groups of their profiles, one of which has
	// all rights.
	ServiceAccountRights bool `json:"-"`
	// Delete removes what runs of this name have left, and runs nothing.
	Delete bool `json:"delete,omitempty"`

	// PodWatchers is the number of additional informers of all pods, each with a connection of
	// its own. Their events go to Observer, which is then required.
	PodWatchers int `json:"podWatchers,omitempty"`
	// Observer receives events of the run. It may be nil.
	Observer Observer `json:"-"`
	// Informers receives the states of the run's informers. It may be nil.
	Informers InformerObserver `json:"-"`

	// ExistingNode, if not nil, returns the name of node i. The run takes nodes of these names
	// over, even if others have made them.
	ExistingNode func(i int) string `json:"-"`
	// SkipPreflight starts without a check of the server and the user's rights. The server may
	// start later.
	SkipPreflight bool `json:"-"`

	REST *rest.Config `json:"-"`
	// Progress receives lines of progress. Nil means no output.
	Progress io.Writer `json:"-"`
}

const maxNodes = 50_000

// maxPods is the default limit of a kubelet.
const maxPods = 110

// validate returns an error for the first value that is out of range. It names fields by
// their flags.
func (c *Config) validate() error {
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes:
		return fmt.Errorf("--nodes=%d: choose 1 to %d", c.Nodes, maxNodes)
	case c.Pods < 0 || c.Pods > maxPods:
		return fmt.Errorf("--pods=%d: choose 0 to %d, which is what a kubelet runs", c.Pods, maxPods)
	case c.Start != StartPaced && c.Start != StartStorm:
		return fmt.Errorf("--start=%s: choose paced or storm", c.Start)
	case c.Start == StartPaced && c.StartRate <= 0:
		return fmt.Errorf("--start-rate=%g: choose a positive number of nodes a second", c.StartRate)
	case c.ConnectionsPerNode < 0:
		return fmt.Errorf("--connections-per-node=%g: choose 0 for a connection of each program, or a positive number", c.ConnectionsPerNode)
	case c.PodWatchers < 0 || c.PodWatchers > 0 && c.Observer == nil:
		return fmt.Errorf("%d watchers of pods: choose a positive number, and an observer", c.PodWatchers)
	case c.PodStart < 0 || c.JobDuration < 0 || c.Duration < 0:
		return errors.New("--pod-start, --job-duration and --duration: choose times that are not negative")
	}
	return c.validateName()
}

// maxName leaves room for the number of a node in a label's value, which has 63 characters.
const maxName = 40

func (c *Config) validateName() error {
	if c.Name == "" || len(c.Name) > maxName {
		return fmt.Errorf("--name=%s: choose 1 to %d small letters and digits", c.Name, maxName)
	}
	for i, r := range c.Name {
		letter := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !letter && (r != '-' || i == 0 || i == len(c.Name)-1) {
			return fmt.Errorf("--name=%s: choose small letters and digits, with hyphens between them", c.Name)
		}
	}
	return nil
}

// nodeName returns the name of node i.
func (c *Config) nodeName(i int) string {
	if c.ExistingNode != nil {
		return c.ExistingNode(i)
	}
	return fmt.Sprintf("%s-%05d", c.Name, i)
}
