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
	// Name is the name of the file, without .yaml.
	Name        string  `json:"-"`
	Description string  `json:"description"`
	Agents      []Agent `json:"agents"`
}

// Values of Agent.Per.
const (
	PerNode    = "node"
	PerCluster = "cluster"
)

// Agent is one program. The text $node stands for the name of the agent's node: in UserAgent and
// User, and in all selectors and names of its reads.
type Agent struct {
	Name string `json:"name"`
	// Per says where the agent runs. Empty: PerNode.
	Per string `json:"per,omitempty"`
	// Instances is the number of agents on each node, or in the cluster. 0: one.
	Instances int `json:"instances,omitempty"`
	// UserAgent is the header User-Agent. Empty: Name.
	UserAgent string `json:"userAgent,omitempty"`
	// User and Groups are used if users are impersonated. Groups default to system:masters, so that
	// the agent needs no rights of its own.
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Backoff is the pause before a failed request is repeated. Zero: as in client-go.
	Backoff Backoff `json:"backoff,omitempty"`
	// Restart is the time after which the agent restarts. Zero: never.
	Restart Range  `json:"restart,omitempty"`
	Reads   []Read `json:"reads"`
}

// Backoff has the pauses after failures. First is the first pause. Each further pause is twice as
// long, up to Longest.
type Backoff struct {
	First   Duration `json:"first,omitempty"`
	Longest Duration `json:"longest,omitempty"`
}

// Values of Read.Mode.
const (
	ModeWatchList = "watch-list" // one watch that starts with all objects
	ModeWatch     = "watch"      // a LIST, and a watch from there
	ModePoll      = "poll"       // a LIST each Every
	ModeGet       = "get"        // a GET of one object each Every
	ModeList      = "list"       // one LIST at the start
)

// RevisionUnset is the value of Read.ResourceVersion other than "0".
const RevisionUnset = "unset"

// Values of Read.Encoding.
const (
	EncodingJSON     = "json"
	EncodingProtobuf = "protobuf"
	EncodingMetadata = "metadata" // PartialObjectMetadata, as protobuf
)

// Read says what an agent reads of one resource, and how.
type Read struct {
	// Resource is the version and the name, as in v1/pods or apps/v1/deployments.
	Resource string `json:"resource"`
	// Namespace is empty for all namespaces, and for resources without namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object that ModeGet reads.
	Name   string `json:"name,omitempty"`
	Fields string `json:"fields,omitempty"`
	Labels string `json:"labels,omitempty"`

	Mode string `json:"mode,omitempty"`
	// Encoding is how the agent asks for objects. Empty: EncodingJSON.
	Encoding string `json:"form,omitempty"`
	// ResourceVersion is the parameter of LISTs and GETs: "0" or "unset". Empty: "0". With "0" a
	// later LIST for a watch asks for the last version seen, without Limit, as in client-go.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Limit is the parameter of LISTs. All further pages are read, too. 0: no limit.
	Limit int `json:"limit,omitempty"`
	// Every is the period of ModePoll and ModeGet.
	Every Range `json:"every,omitempty"`
	// Timeout is the parameter timeoutSeconds of watches. Zero: 5 to 10 minutes, as in client-go.
	Timeout Range `json:"timeout,omitempty"`
	// NoBookmarks leaves allowWatchBookmarks out.
	NoBookmarks bool `json:"noBookmarks,omitempty"`
	// Relist is the time after which the agent lists again although its watch is open. Zero:
	// never.
	Relist Range `json:"relist,omitempty"`
	// NoResume lists again after each watch, instead of a watch from the last event.
	NoResume bool `json:"noResume,omitempty"`
	// NoGzip does not ask for compressed LISTs.
	NoGzip bool `json:"noGzip,omitempty"`
	// Optional leaves the resource out if the server does not serve it.
	Optional bool `json:"optional,omitempty"`

	// OwnPods marks the read by which a kubelet gets the pods that it runs. OfPods marks a read
	// that exists once for each object that these pods use, such as a secret.
	OwnPods bool `json:"ownPods,omitempty"`
	OfPods  bool `json:"ofPods,omitempty"`
}

// Path returns the path of the resource in a namespace, or of the object if name is not empty.
// An empty namespace stands for all namespaces.
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

// ResourceName returns the resource without its version, as in pods or deployments.apps.
func (r *Read) ResourceName() string {
	dir, resource := path.Split(r.Resource)
	group, _, grouped := strings.Cut(strings.TrimSuffix(dir, "/"), "/")
	if !grouped {
		return resource
	}
	return resource + "." + group
}

// BuiltIn reports whether the resource is one of Kubernetes' own. Only these have protobuf.
func (r *Read) BuiltIn() bool { return clusterprofile.BuiltIn(r.ResourceName()) }

// Title returns a few words on what is read.
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

// check validates an agent and fills in defaults.
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

// check validates a read and fills in defaults. Its errors say what to write instead.
func (r *Read) check() error {
	if r.Mode == "" {
		r.Mode = ModeWatch
	}
	if r.Encoding == "" {
		r.Encoding = EncodingJSON
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
	case r.Encoding != EncodingJSON && r.Encoding != EncodingProtobuf && r.Encoding != EncodingMetadata:
		return fmt.Errorf("form is %q: choose json, protobuf or metadata", r.Encoding)
	case r.Encoding == EncodingProtobuf && !r.BuiltIn():
		return errors.New("custom resources have no protobuf: choose json or metadata")
	case r.ResourceVersion != "0" && r.ResourceVersion != RevisionUnset:
		return fmt.Errorf(`resourceVersion is %q: choose "0" or unset`, r.ResourceVersion)
	case r.Limit < 0:
		return fmt.Errorf("limit is %d: leave it out or choose a positive number", r.Limit)
	case polls != !r.Every.isZero():
		return errors.New("every is for the modes poll and get, which need it")
	case (r.Mode == ModeGet) != (r.Name != ""):
		return errors.New("name is for the mode get, which needs it; other modes take fields: metadata.name=…")
	case !watches && (!r.Timeout.isZero() || !r.Relist.isZero() || r.NoBookmarks || r.NoResume || r.OwnPods || r.OfPods):
		return errors.New("timeout, relist, noBookmarks, noResume, ownPods and ofPods are for watches")
	case r.OwnPods && r.Encoding == EncodingMetadata:
		return errors.New("ownPods needs whole pods: choose json or protobuf")
	}
	if r.Timeout.isZero() {
		r.Timeout = defaultTimeout
	}
	return nil
}
