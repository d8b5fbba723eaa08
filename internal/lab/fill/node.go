package fill

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// minPodCapacity is the pod capacity that a kubelet announces by default.
const minPodCapacity = 110

// nodeTemplate holds the kubelet's managed fields, which all nodes share.
type nodeTemplate struct {
	registeredFields []byte // metadata and spec
	statusFields     []byte // status
}

// prepare computes the managed fields from node 0.
func (t *nodeTemplate) prepare(g *Generator) error {
	node := g.bareNode(0)
	status := node.Status
	node.Status = corev1.NodeStatus{}
	var err error
	if t.registeredFields, err = fieldSet(map[string]any{"metadata": node.ObjectMeta, "spec": node.Spec}); err != nil {
		return err
	}
	t.statusFields, err = fieldSet(map[string]any{"status": status})
	return err
}

// Node returns node i. The node is ready, has no taints and has the capacity for
// its share of the pods, so that a scheduler can place pods on it.
func (g *Generator) Node(i int) *corev1.Node {
	node := g.bareNode(i)
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		managedEntry("kubelet", "", node.CreationTimestamp, g.nodes.registeredFields),
		managedEntry("kubelet", "status", node.Status.Conditions[0].LastHeartbeatTime, g.nodes.statusFields),
	}
	return node
}

// bareNode returns node i without managed fields.
func (g *Generator) bareNode(i int) *corev1.Node {
	draw := newStream(g.shape.Seed, drawNode, i)
	name := g.nodeName(i)
	zone := "zone-" + string("abc"[i%3])
	uid := draw.uid()
	created := draw.instant(-30, 30)
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			UID:               uid,
			CreationTimestamp: created,
			Labels: map[string]string{
				LabelSeed:                          g.seedLabel(),
				"kubernetes.io/arch":               "amd64",
				"kubernetes.io/hostname":           name,
				"kubernetes.io/os":                 "linux",
				"node.kubernetes.io/instance-type": "standard-64",
				"topology.kubernetes.io/region":    "region-1",
				"topology.kubernetes.io/zone":      zone,
			},
			Annotations: map[string]string{
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:    podCIDR(i),
			PodCIDRs:   []string{podCIDR(i)},
			ProviderID: "fill://region-1/" + zone + "/" + name,
		},
		Status: g.nodeStatus(i, &draw, created),
	}
}

// nodeStatus returns the status of node i, as the kubelet of a ready node reports it.
func (g *Generator) nodeStatus(i int, draw *stream, created metav1.Time) corev1.NodeStatus {
	heartbeat := draw.instant(31, 1)
	pods := minPodCapacity
	if g.shape.Nodes > 0 {
		pods = max(pods, (g.shape.Pods+g.shape.Nodes-1)/g.shape.Nodes)
	}
	resources := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("64"),
			corev1.ResourceMemory:           resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             *resource.NewQuantity(int64(pods), resource.DecimalSI),
		}
	}
	return corev1.NodeStatus{
		Capacity:    resources("256Gi"),
		Allocatable: resources("252Gi"),
		Conditions:  nodeConditions(created, heartbeat),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeIP(i)},
			{Type: corev1.NodeHostName, Address: g.nodeName(i)},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               draw.hex(32),
			SystemUUID:              string(draw.uid()),
			BootID:                  string(draw.uid()),
			KernelVersion:           "6.12.0-cloud-amd64",
			OSImage:                 "Debian GNU/Linux 13 (trixie)",
			ContainerRuntimeVersion: "containerd://2.1.4",
			KubeletVersion:          "v1.37.2",
			OperatingSystem:         "linux",
			Architecture:            "amd64",
		},
		Images: g.nodeImages(i),
	}
}

// nodeConditions returns the conditions of a node that has been ready since shortly after its
// creation.
func nodeConditions(created, heartbeat metav1.Time) []corev1.NodeCondition {
	ready := later(created, 20*time.Second)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: heartbeat, LastTransitionTime: ready,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// nodeImages returns some of the images that the node's pods run.
func (g *Generator) nodeImages(i int) []corev1.ContainerImage {
	const count = 12
	images := make([]corev1.ContainerImage, 0, count)
	for n := range count {
		app := (i*7 + n) % len(g.words.apps)
		name, digest := g.image(app, 0)
		images = append(images, corev1.ContainerImage{
			Names:     []string{digest, name},
			SizeBytes: int64(40_000_000 + app*911_003),
		})
	}
	return images
}

// image returns the tagged and the content-addressed name of the image that
// container n of an application runs.
func (g *Generator) image(app, n int) (tagged, digest string) {
	draw := newStream(g.shape.Seed, drawImage, app*16+n)
	repository := "registry.example.com/" + g.words.apps[app]
	if n > 0 {
		repository += "-sidecar-" + strconv.Itoa(n)
	}
	tag := strconv.Itoa(1+draw.intBelow(9)) + "." + strconv.Itoa(10+draw.intBelow(90)) + "." + strconv.Itoa(draw.intBelow(10))
	return repository + ":" + tag, repository + "@sha256:" + draw.hex(64)
}
