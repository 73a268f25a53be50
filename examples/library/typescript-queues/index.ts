import * as pulumi from "@pulumi/pulumi";
import { Queues } from "@pulumi/muster-components";

const config = new pulumi.Config();

const queues = new Queues("queues", {
    kubeconfig: config.requireSecret("kubeconfig"),
    kubeContext: config.require("context"),
    stack: {
        cluster: { provider: "existing", name: "shared", context: "shared" },
        pools: {
            cpu: { machine: "e2-standard-8", maxNodes: 4 },
            l4: { machine: "g2-standard-8", maxNodes: 8 },
        },
        gangAdmission: { mode: "off" },
        priorities: { prod: 100, dev: 10 },
        departments: {
            research: {
                teams: {
                    "team-a": { quota: { l4: 4 }, borrow: { l4: 4 } },
                    "team-b": { quota: { l4: 4 } },
                },
            },
        },
    },
});

export const queueNames = queues.queueNames;
