package agentprofile

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// Profile is what one file describes: the agents that are installed together.
type Profile struct {
	// Name is that of the file, without its ending.
	Name        string  `json:"-"`
	Description string  `json:"description"`
	Agents      []Agent `json:"agents"`
}

// Values of Agent.Per.
const (
	PerNode    = "node"
	PerCluster = "cluster"
)

// Agent is one program. The text $node in UserAgent, User and in all selectors and names of
// its reads stands for the name of its node.
type Agent struct {
	Name string `json:"name"`
	// Per says where it runs. Empty: PerNode.
	Per string `json:"per,omitempty"`
	// Instances is how many run on each node, or in the cluster. 0: one.
	Instances int `json:"instances,omitempty"`
	// UserAgent is the header. Empty: the name.
	UserAgent string `json:"userAgent,omitempty"`
	// User and Groups are used if users are impersonated. Groups default to system:masters,
	// so that nobody has to give the agent rights.
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Backoff is how it repeats what failed. Zero: as client-go does.
	Backoff Backoff `json:"backoff,omitempty"`
	// Restart is how long it runs before it restarts. Zero: for ever.
	Restart Range  `json:"restart,omitempty"`
	Reads   []Read `json:"reads"`
}

// Backoff are the pauses after failures: the first, and the longest, up to which they
// double.
type Backoff struct {
	First   Duration `json:"first,omitempty"`
	Longest Duration `json:"longest,omitempty"`
}

// Values of Read.Mode.
const (
	ModeWatchList = "watch-list" // one watch that begins with all objects
	ModeWatch     = "watch"      // a LIST, and a watch from there
	ModePoll      = "poll"       // a LIST each Every
	ModeGet       = "get"        // a GET of one object each Every
	ModeList      = "list"       // one LIST at the start
)

// Values of Read.ResourceVersion besides "0".
const RevisionUnset = "unset"

// Values of Read.Form.
const (
	FormJSON     = "json"
	FormProtobuf = "protobuf"
	FormMetadata = "metadata" // PartialObjectMetadata, as protobuf
)

// Read is what an agent reads of one resource.
type Read struct {
	// Resource is the version and the name, as in v1/pods or apps/v1/deployments.
	Resource string `json:"resource"`
	// Namespace is empty for all namespaces and for resources without.
	Namespace string `json:"namespace,omitempty"`
	// Name is the object of ModeGet.
	Name   string `json:"name,omitempty"`
	Fields string `json:"fields,omitempty"`
	Labels string `json:"labels,omitempty"`

	Mode string `json:"mode,omitempty"`
	Form string `json:"form,omitempty"`
	// ResourceVersion is that of LISTs and GETs: "0" or "unset". Empty: "0". Unless it is unset, a
	// later LIST for a watch is for the last version seen and has no Limit, as in client-go.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Limit is that of LISTs. Further pages are read to the end.
	Limit int `json:"limit,omitempty"`
	// Every is the period of ModePoll and ModeGet.
	Every Range `json:"every,omitempty"`
	// Timeout is the timeoutSeconds of watches. Zero: 5 to 10 minutes, as client-go.
	Timeout Range `json:"timeout,omitempty"`
	// NoBookmarks leaves allowWatchBookmarks out.
	NoBookmarks bool `json:"noBookmarks,omitempty"`
	// Relist is how often it lists anew although its watch is open. Zero: never.
	Relist Range `json:"relist,omitempty"`
	// NoResume lists anew after each watch, instead of going on from its last event.
	NoResume bool `json:"noResume,omitempty"`
	// NoGzip does not ask for compressed LISTs.
	NoGzip bool `json:"noGzip,omitempty"`
	// Optional leaves the resource out if the server does not serve it.
	Optional bool `json:"optional,omitempty"`

	// OwnPods marks the read by which a kubelet gets the pods that it runs, and OfPods
	// those of which there is one for each object that its pods use.
	OwnPods bool `json:"ownPods,omitempty"`
	OfPods  bool `json:"ofPods,omitempty"`
}

// Path is that of the resource in a namespace, or of the object name if it is not empty.
func (r *Read) Path(namespace, name string) string {
	version, resource := path.Split(r.Resource)
	parts := []string{"/apis", version}
	if version == "v1/" {
		parts[0] = "/api"
	}
	if namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	return path.Join(append(parts, resource, name)...)
}

// ResourceName is the resource without its version, as in pods or deployments.apps.
func (r *Read) ResourceName() string {
	dir, resource := path.Split(r.Resource)
	group, _, grouped := strings.Cut(strings.TrimSuffix(dir, "/"), "/")
	if !grouped {
		return resource
	}
	return resource + "." + group
}

// BuiltIn reports whether the resource is one of Kubernetes', and so has protobuf.
func (r *Read) BuiltIn() bool { return clusterprofile.BuiltIn(r.ResourceName()) }

// Title says in a few words what is read.
func (r *Read) Title() string {
	title := r.Resource
	if r.Namespace != "" {
		title += " in " + r.Namespace
	}
	if r.Name != "" {
		title += " " + r.Name
	}
	if r.OfPods {
		title += " of pods, by name"
	}
	for _, selector := range []string{r.Fields, r.Labels} {
		if selector != "" {
			title += " " + selector
		}
	}
	return title
}

// check validates a profile and fills in defaults.
func (p *Profile) check() error {
	if len(p.Agents) == 0 {
		return errors.New("it has no agents")
	}
	for i := range p.Agents {
		if err := p.Agents[i].check(); err != nil {
			return fmt.Errorf("agents[%d] (%s): %w", i, p.Agents[i].Name, err)
		}
	}
	return nil
}

// New checks an agent that no file describes, and fills in defaults.
func New(a Agent) (*Agent, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("agent %s: %w", a.Name, err)
	}
	return &a, nil
}

const maxInstances = 1000

func (a *Agent) check() error {
	switch {
	case a.Name == "":
		return errors.New("it has no name")
	case a.Per != "" && a.Per != PerNode && a.Per != PerCluster:
		return fmt.Errorf("per is %q: choose node or cluster", a.Per)
	case a.Instances < 0 || a.Instances > maxInstances:
		return fmt.Errorf("instances is %d: choose 1 to %d", a.Instances, maxInstances)
	case len(a.Reads) == 0:
		return errors.New("it has no reads")
	}
	if a.Per == "" {
		a.Per = PerNode
	}
	a.Instances = max(1, a.Instances)
	if a.UserAgent == "" {
		a.UserAgent = a.Name
	}
	if a.Groups == nil {
		a.Groups = []string{"system:masters"}
	}
	for i := range a.Reads {
		if err := a.Reads[i].check(); err != nil {
			return fmt.Errorf("reads[%d] (%s): %w", i, a.Reads[i].Resource, err)
		}
	}
	return nil
}

func (r *Read) check() error {
	if r.Mode == "" {
		r.Mode = ModeWatch
	}
	if r.Form == "" {
		r.Form = FormJSON
	}
	if r.ResourceVersion == "" {
		r.ResourceVersion = "0"
	}
	watches := r.Mode == ModeWatch || r.Mode == ModeWatchList
	polls := r.Mode == ModePoll || r.Mode == ModeGet
	switch {
	case strings.Count(r.Resource, "/") != 1 && strings.Count(r.Resource, "/") != 2:
		return errors.New("resource must be as v1/pods or apps/v1/deployments")
	case !watches && !polls && r.Mode != ModeList:
		return fmt.Errorf("mode is %q: choose watch-list, watch, poll, get or list", r.Mode)
	case r.Form != FormJSON && r.Form != FormProtobuf && r.Form != FormMetadata:
		return fmt.Errorf("form is %q: choose json, protobuf or metadata", r.Form)
	case r.Form == FormProtobuf && !r.BuiltIn():
		return errors.New("custom resources have no protobuf: choose json or metadata")
	case r.ResourceVersion != "0" && r.ResourceVersion != RevisionUnset:
		return fmt.Errorf(`resourceVersion is %q: choose "0" or unset`, r.ResourceVersion)
	case r.Limit < 0:
		return fmt.Errorf("limit is %d: leave it out or choose a positive one", r.Limit)
	case polls != !r.Every.zero():
		return errors.New("every is for the modes poll and get, which need it")
	case (r.Mode == ModeGet) != (r.Name != ""):
		return errors.New("name is for the mode get, which needs it; other modes take fields: metadata.name=…")
	case !watches && (!r.Timeout.zero() || !r.Relist.zero() || r.NoBookmarks || r.NoResume || r.OwnPods || r.OfPods):
		return errors.New("timeout, relist, noBookmarks, noResume, ownPods and ofPods are for watches")
	case r.OwnPods && r.Form == FormMetadata:
		return errors.New("ownPods needs whole pods: choose json or protobuf")
	}
	if r.Timeout.zero() {
		r.Timeout = defaultTimeout
	}
	return nil
}
