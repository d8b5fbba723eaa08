package fill

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The levels of detail of a pod. The lowest has only what a server requires, plus
// the pod's node and addresses. The highest is an application with several
// containers.
const (
	levelTiny     = iota // one condition, no tolerations, few labels, no host address
	levelBare            // all conditions, labels and tolerations
	levelManaged         // managed fields of the controller, but two conditions
	levelReported        // all conditions, and managed fields of the kubelet
	levelTypical         // annotations, limits, probes, the token's volume
	levelSidecar         // two containers, more volumes
	levelLarge           // three containers, still more volumes
	levels
)

// podShape describes how much content a pod template has.
type podShape struct {
	level    int
	env      int // environment variables beyond the fixed ones, over all containers
	valueLen int // average length of the values of env, in bytes
	pad      int // length of the one value that brings the pod to its exact size, in bytes
}

// containers returns the number of containers.
func (s podShape) containers() int {
	switch s.level {
	case levelLarge:
		return 3
	case levelSidecar:
		return 2
	}
	return 1
}

// fitPod returns the template whose pods have the size that the shape wants. It
// first takes the highest level that leaves room for environment variables. Then it
// adds as many variables as fit. One padding value takes up the remainder.
func (g *Generator) fitPod(app int) *podTemplate {
	const (
		typicalValue     = 24
		trial            = 8
		maxPerContainer  = 120
		roomForVariables = 4  // one part in this many of a pod with sidecars
		slack            = 50 // one part in this many may be exceeded to get managed fields
	)
	target := g.shape.PodSize
	shape := podShape{pad: 1, valueLen: typicalValue}
	base := 0
	for shape.level = levels - 1; ; shape.level-- {
		base = g.buildPod(app, shape).size()
		limit := target
		switch {
		case shape.level >= levelSidecar:
			limit -= target / roomForVariables
		case shape.level == levelManaged:
			limit += target / slack
		}
		if base <= limit || shape.level == levelTiny {
			break
		}
	}
	withTrial := shape
	withTrial.env = trial
	each := (g.buildPod(app, withTrial).size() - base) / trial
	shape.env = max(0, (target-base)/each)
	if most := maxPerContainer * shape.containers(); shape.env > most {
		shape.env = most
		shape.valueLen += (target-base)/most - each
	}
	size := g.buildPod(app, shape).size()
	for size > target && shape.env > 0 {
		shape.env -= min(shape.env, 1+(size-target)/(each+shape.valueLen))
		size = g.buildPod(app, shape).size()
	}
	shape.pad += max(0, target-size)
	return g.buildPod(app, shape)
}

func (g *Generator) podAnnotations(app int, shape podShape) map[string]string {
	if shape.level < levelTypical {
		return nil
	}
	draw := newStream(g.shape.Seed, drawEnv, app*16+1)
	return map[string]string{
		"checksum/config":      draw.hex(64),
		"prometheus.io/port":   "9090",
		"prometheus.io/scrape": "true",
	}
}

// environment returns the environment variables of container n. The first container
// also has the padding value.
func (g *Generator) environment(app, n int, shape podShape) []corev1.EnvVar {
	draw := newStream(g.shape.Seed, drawEnv, app*16+2+n)
	var env []corev1.EnvVar
	if n == 0 {
		env = append(env, corev1.EnvVar{Name: "OPTIONS", Value: excerpt(g.envText, &draw, shape.pad)})
	}
	if shape.level >= levelReported {
		env = append(env, corev1.EnvVar{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
		}})
	}
	names := strings.Fields("LOG_LEVEL HTTP_PORT DATABASE_HOST DATABASE_NAME DATABASE_POOL_SIZE CACHE_ENDPOINT " +
		"QUEUE_URL TRACING_ENDPOINT TRACING_SAMPLE_RATE REQUEST_TIMEOUT MAX_CONNECTIONS FEATURE_FLAGS REGION TENANT")
	share := (shape.env + shape.containers() - 1 - n) / shape.containers()
	for i := range share {
		name := "APP_SETTING_" + strconv.Itoa(1000+i)
		if i < len(names) {
			name = names[i]
		}
		// Lengths are spread evenly around the average, so that sizes are
		// predictable.
		length := shape.valueLen/2 + (i%9)*shape.valueLen/8
		env = append(env, corev1.EnvVar{Name: name, Value: excerpt(g.envText, &draw, max(1, length))})
	}
	return env
}

// containerStatuses returns the parts of the containers' statuses that all pods of an
// application share.
func (g *Generator) containerStatuses(app int, shape podShape, containers []corev1.Container) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, len(containers))
	for n, container := range containers {
		_, digest := g.image(app, n)
		if shape.level == levelTiny {
			_, digest, _ = strings.Cut(digest, "@")
		}
		started := true
		statuses[n] = corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: digest,
			Ready: true, Started: &started,
		}
		if shape.level < levelTypical {
			continue
		}
		resources := container.Resources
		statuses[n].AllocatedResources = resources.Requests
		statuses[n].Resources = &resources
		for _, mount := range container.VolumeMounts {
			status := corev1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
			if mount.ReadOnly {
				disabled := corev1.RecursiveReadOnlyDisabled
				status.RecursiveReadOnly = &disabled
			}
			statuses[n].VolumeMounts = append(statuses[n].VolumeMounts, status)
		}
	}
	return statuses
}
