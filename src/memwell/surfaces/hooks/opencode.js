// Recall and capture for opencode. `memwell hook config opencode --write` writes this file.
import { spawn } from "node:child_process"

const RECALL = "recall command"
const CAPTURE = "capture command"

/** Run a command with an event as its input; whatever goes wrong, the answer is "". */
function run([command, ...options], event) {
  return new Promise((resolve) => {
    const child = spawn(command, options, { stdio: ["pipe", "pipe", "ignore"] })
    let answer = ""
    child.on("error", () => resolve(""))
    child.on("close", () => resolve(answer))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => (answer += data))
    child.stdin.end(JSON.stringify(event))
  })
}

export const Memwell = async ({ directory }) => ({
  "chat.message": async ({ sessionID }, { parts }) => {
    const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
    if (typed.length === 0) return
    const prompt = typed.map((part) => part.text).join("\n\n")
    const event = { hook_event_name: "UserPromptSubmit", session_id: sessionID, cwd: directory, prompt }
    void run(CAPTURE, event)
    const answer = await run(RECALL, event)
    if (!answer.trim()) return
    const text = JSON.parse(answer).hookSpecificOutput.additionalContext
    const last = typed[typed.length - 1]
    parts.push({ ...last, id: `${last.id}m`, text, synthetic: true })
  },
})
